package netconfig

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/output"
)

// Report is the meaning of a network config.
type Report struct {
	Valid    bool     `json:"Valid"`
	Error    string   `json:"Error,omitempty"` // as the daemon logs it
	Warnings []string `json:"Warnings,omitempty"`
	Backend  string   `json:"Backend,omitempty"`
	Ranges   []Range  `json:"Ranges,omitempty"`
	// Misfits are the nodes that have to take another subnet under the config. Nil
	// means that no leases were read.
	Misfits []Misfit `json:"Misfits,omitempty"`
	// Changes are the differences to the config in force, in words.
	Changes []string `json:"Changes,omitempty"`
	Stored  bool     `json:"Stored,omitempty"` // the datastore has the config now
}

// Range is the address space of one family.
type Range struct {
	Network string `json:"Network"`
	// The subnets of the nodes; empty if Kubernetes assigns them.
	SubnetLen int    `json:"SubnetLen,omitempty"`
	Min       string `json:"Min,omitempty"`
	Max       string `json:"Max,omitempty"`
	Subnets   string `json:"Subnets,omitempty"` // their number
}

// Misfit is a lease that does not fit.
type Misfit struct {
	Subnet string `json:"Subnet"`
	Owner  string `json:"Owner"`
	Why    string `json:"Why"`
}

// Check reads a config. With a snapshot of the datastore, it also tells what would
// change.
func Check(data []byte, assigned bool, snap *lease.Snapshot) *Report {
	network, warnings, err := node.CheckConfig(data, assigned)
	if err != nil {
		return &Report{Error: err.Error()}
	}
	r := &Report{Valid: true, Warnings: warnings, Backend: backendOf(network)}
	for _, f := range cidr.Families {
		r.addRange(network, f)
	}
	if snap == nil {
		return r
	}
	r.Misfits = []Misfit{}
	for _, l := range snap.Leases {
		if err := Fits(network, l.Key, assigned); err != nil {
			r.Misfits = append(r.Misfits, Misfit{l.Key.String(), OwnerOf(l.Attrs), err.Error()})
		}
	}
	r.compare(network, snap.Config.Data, assigned)
	return r
}

// Fits returns the reason why a subnet does not fit a config, nil if it does. A subnet
// that Kubernetes assigns only has to be inside the network.
func Fits(network config.Network, subnet lease.Key, assigned bool) error {
	if assigned {
		return alloc.Inside(network, subnet)
	}
	return alloc.Compatible(network, subnet)
}

// OwnerOf returns the public addresses of a lease's owner.
func OwnerOf(a lease.Attrs) string {
	var ips []string
	for _, f := range cidr.Families {
		if ip := a.IP(f); ip.IsValid() {
			ips = append(ips, ip.String())
		}
	}
	return strings.Join(ips, ",")
}

// backendOf returns the type of the backend that a config chooses.
func backendOf(network config.Network) string { return cmp.Or(network.Backend.Type, all.Default) }

func (r *Report) addRange(network config.Network, f cidr.Family) {
	in := network.Of(f)
	if !in.Enabled() {
		return
	}
	out := Range{Network: in.Network.String()}
	if in.SubnetLen != 0 {
		_, count := alloc.Count(network, &lease.Snapshot{}, f)
		out.SubnetLen, out.Subnets = in.SubnetLen, count.String()
		out.Min = in.Min.String()
		out.Max = in.Max.String()
	}
	r.Ranges = append(r.Ranges, out)
}

// compare adds the differences to the config in force.
func (r *Report) compare(network config.Network, former []byte, assigned bool) {
	if len(former) == 0 {
		r.Changes = []string{"there is no network config in force"}
		return
	}
	was, _, err := node.CheckConfig(former, assigned)
	if err != nil {
		r.Changes = []string{"no node can use the network config in force: " + err.Error()}
		return
	}
	differ := func(what, before, now string) {
		if before != now {
			r.Changes = append(r.Changes, fmt.Sprintf("%s: %s becomes %s", what, before, now))
		}
	}
	differ("backend", backendOf(was), backendOf(network))
	for _, f := range cidr.Families {
		differ(f.String()+" network", rangeText(was.Of(f)), rangeText(network.Of(f)))
	}
	differ("EnableNFTables", fmt.Sprint(was.EnableNFTables), fmt.Sprint(network.EnableNFTables))
	differ("Formerly", formerlyText(was), formerlyText(network))
	if backendOf(was) == backendOf(network) && !maps.EqualFunc(options(was), options(network), sameValue) {
		r.Changes = append(r.Changes, "other options of the backend")
	}
}

// options returns the options of a config's backend, without its type.
func options(network config.Network) map[string]any {
	var of map[string]any
	_ = json.Unmarshal(network.Backend.Options, &of) // a config without a backend has no text here
	maps.DeleteFunc(of, func(name string, _ any) bool { return strings.EqualFold(name, "Type") })
	return of
}

// formerlyText returns the types of the previous backends in a config. Their options may be secrets.
func formerlyText(network config.Network) string {
	if network.Formerly == nil {
		return "not given"
	}
	types := []string{}
	for _, b := range network.Formerly {
		types = append(types, b.Type)
	}
	return "[" + strings.Join(types, ", ") + "]"
}

func sameValue(a, b any) bool { return reflect.DeepEqual(a, b) }

func rangeText(r config.Range) string {
	switch {
	case !r.Enabled():
		return "none"
	case r.SubnetLen == 0:
		return r.Network.String()
	}
	return fmt.Sprintf("%s in subnets of /%d from %s to %s", r.Network, r.SubnetLen, r.Min, r.Max)
}

// Trouble reports whether nodes would refuse the config or ignore a part of it, or
// would have to take other subnets.
func (r *Report) Trouble() bool { return !r.Valid || len(r.Warnings)+len(r.Misfits) > 0 }

// Text prints the report for people.
func (r *Report) Text(p *output.Page) {
	if !r.Valid {
		p.Table(nil, []output.Cell{output.Bad("error:"), output.Plain(r.Error)})
		return
	}
	rows := [][]output.Cell{{output.Plain("backend:"), output.Plain(r.Backend)}}
	for _, in := range r.Ranges {
		text := in.Network
		if in.SubnetLen != 0 {
			text += fmt.Sprintf(", %s subnets of /%d from %s to %s", in.Subnets, in.SubnetLen, in.Min, in.Max)
		}
		rows = append(rows, output.Row("network:", text))
	}
	for _, w := range r.Warnings {
		rows = append(rows, []output.Cell{output.Warn("warning:"), output.Plain(w)})
	}
	for _, c := range r.Changes {
		rows = append(rows, output.Row("changes:", c))
	}
	for _, m := range r.Misfits {
		text := fmt.Sprintf("%s has to take another subnet: %s", m.Owner, m.Why)
		rows = append(rows, []output.Cell{output.Warn("moves:"), output.Plain(text)})
	}
	if r.Stored {
		rows = append(rows, []output.Cell{output.Good("stored:"), output.Plain("the nodes follow it from now on")})
	}
	p.Table(nil, rows...)
}
