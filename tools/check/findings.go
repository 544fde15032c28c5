package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/tools/output"
)

// Short names for types that the findings handle often.
type (
	link     = driver.Link
	linkAddr = driver.LinkAddr
)

// The bounds of what is enough.
const (
	mostAhead   = 5 * time.Minute // of a clock: certificates and leases need it right
	someAhead   = 10 * time.Second
	leastFree   = 1 << 20  // bytes of a disk
	littleFree  = 50 << 20 // bytes
	leastInodes = 100
)

// Findings judges the facts, in a fixed order.
func (f *Facts) Findings() []Finding {
	var all []Finding
	for _, judge := range []func() []Finding{
		f.config, f.daemon, f.node, f.datastore, f.modules, f.options, f.forwarding, f.bridges, f.uplink, f.overlap, f.shared,
		f.bypass, f.podBridge, f.ports, f.refused, f.insiders, f.paths, f.peers, f.owners, f.firewall, f.masquerade,
		f.firewalld, f.takers, f.leftovers, f.pools, f.bounds, f.disks, f.selinux, f.clock,
	} {
		all = append(all, judge()...)
	}
	for _, what := range f.Unknown {
		all = append(all, Finding{Level: Warning, Topic: "unknown", Text: what})
	}
	return all
}

// config judges the network config.
func (f *Facts) config() []Finding {
	switch {
	case f.ConfigError != "":
		return []Finding{{Level: Failure, Topic: "config", Text: f.ConfigError,
			Remedy: "flannelctl config validate FILE"}}
	case f.Network == nil:
		return []Finding{{Level: Warning, Topic: "config", Remedy: "flannelctl check --config FILE",
			Text: "no network config is known: what depends on it was not checked"}}
	}
	return []Finding{{Level: OK, Topic: "config", Text: "backend " + f.backend()}}
}

// daemon judges whether flanneld runs and has written its file.
func (f *Facts) daemon() []Finding {
	file := f.SubnetFile
	switch {
	case len(f.Daemons) > 1:
		return []Finding{{Level: Warning, Topic: "daemon", Remedy: "ps -fC flanneld",
			Text: fmt.Sprintf("%d daemons run; each needs its own datastore prefix, "+
				"subnet file and VNI or port", len(f.Daemons))}}
	case f.Hidden:
		return nil // the findings about what is not known tell that
	case len(f.Daemons) == 0 && file.Exists:
		return []Finding{{Level: Warning, Topic: "daemon", Remedy: "systemctl start flanneld",
			Text: file.Path + " exists and flanneld does not run: packets flow, and nothing follows changes"}}
	case len(f.Daemons) == 0:
		return []Finding{{Level: OK, Topic: "daemon", Text: "flanneld does not run, and has left no subnet file"}}
	case f.Hangs != "":
		return []Finding{{Level: Failure, Topic: "daemon", Remedy: "systemctl restart flanneld",
			Text: fmt.Sprintf("flanneld runs as process %d and follows no changes: %s", f.Daemons[0], f.Hangs)}}
	case !file.Exists:
		return []Finding{{Level: Failure, Topic: "daemon", Remedy: "flannelctl status",
			Text: fmt.Sprintf("flanneld runs as process %d and has not written %s, so no pod can start; "+
				"its status and its log say what it waits for", f.Daemons[0], file.Path)}}
	}
	return []Finding{{Level: OK, Topic: "daemon",
		Text: fmt.Sprintf("flanneld runs as process %d; the subnet is %s, the MTU %d", f.Daemons[0], file.Subnet, file.MTU)}}
}

// disks judges whether flannel can write its files.
func (f *Facts) disks() []Finding {
	var found []Finding
	for _, d := range f.Disks {
		finding := Finding{Level: OK, Topic: "disk", Text: d.Path + " has room"}
		switch {
		case d.ReadOnly:
			finding = Finding{Level: Failure, Topic: "disk", Text: d.Path + " is mounted read-only",
				Remedy: "findmnt -T " + d.Path + "; dmesg | grep -i read-only"}
		case d.Free < leastFree || d.Inodes < leastInodes:
			finding = Finding{Level: Failure, Topic: "disk", Text: d.Path + " is full",
				Remedy: "df -h " + d.Path + "; df -i " + d.Path}
		case d.Free < littleFree:
			finding = Finding{Level: Warning, Topic: "disk", Text: d.Path + " is nearly full",
				Remedy: "df -h " + d.Path}
		}
		found = append(found, finding)
	}
	return found
}

// selinux judges SELinux, which has to allow the container with flanneld.
func (f *Facts) selinux() []Finding {
	switch f.SELinux {
	case "":
		return nil
	case "enforcing":
		return []Finding{{Level: Warning, Topic: "SELinux", Remedy: "ausearch -m avc -c flanneld",
			Text: "SELinux enforces its policy: a container with flanneld needs the type spc_t, or the policy " +
				"container-selinux"}}
	}
	return []Finding{{Level: OK, Topic: "SELinux", Text: "it is " + f.SELinux}}
}

// clock judges the difference between the clocks of host and datastore.
func (f *Facts) clock() []Finding {
	off := f.Ahead.Abs()
	switch {
	case !f.Clock:
		return nil
	case off < someAhead:
		return []Finding{{Level: OK, Topic: "clock", Text: "it agrees with the datastore's"}}
	}
	level := Warning
	if off > mostAhead {
		level = Failure
	}
	return []Finding{{Level: level, Topic: "clock", Remedy: "chronyc tracking",
		Text: fmt.Sprintf("this host's clock differs by %s from the datastore's, and one of the two is wrong: "+
			"certificates may not be valid yet or any more", off.Round(time.Second))}}
}

// Report holds all findings.
type Report struct {
	Findings []Finding `json:"Findings"`
}

// Trouble reports whether a finding is a failure.
func (r *Report) Trouble() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == Failure })
}

// Text prints a line for each finding, and one for each remedy.
func (r *Report) Text(p *output.Page) {
	var rows [][]output.Cell
	count := map[Level]int{}
	for _, f := range r.Findings {
		count[f.Level]++
		level := output.Good(string(f.Level))
		switch f.Level {
		case Warning:
			level = output.Warn(string(f.Level))
		case Failure:
			level = output.Bad(string(f.Level))
		}
		rows = append(rows, []output.Cell{level, output.Plain(f.Topic), output.Plain(f.Text)})
		if f.Remedy != "" {
			rows = append(rows, []output.Cell{output.Plain(""), output.Plain(""), output.Command("# " + f.Remedy)})
		}
	}
	p.Table(nil, rows...)
	p.Linef("%d ok, %s, %s", count[OK], output.Number(count[Warning], "warning"), output.Number(count[Failure], "failure"))
}
