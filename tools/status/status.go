// Package status shows the status of a node.
package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/tools/output"
)

// shownRepairs is the number of repairs that the text lists.
const shownRepairs = 3

// Result is the status of a node, for people and for programs.
type Result node.Status

// Trouble reports whether something is wrong.
func (r Result) Trouble() bool {
	return !r.Ready || r.Age > 0 || len(r.Problems)+len(r.Unhealthy) > 0
}

// Text writes the status for people.
func (r Result) Text(p *output.Page) {
	p.Table(nil, r.rows()...)
}

func (r Result) rows() [][]output.Cell {
	var rows [][]output.Cell
	add := func(label string, value output.Cell) {
		rows = append(rows, []output.Cell{output.Plain(label), value})
	}
	addAll := func(label string, mark func(string) output.Cell, texts []string) {
		for _, text := range texts {
			add(label, mark(text))
		}
	}
	add("phase", r.phase())
	if r.Age > 0 {
		add("age", output.Bad(fmt.Sprintf("%s: flanneld is busy, and this is the last known status", Round(r.Age))))
	}
	addAll("unhealthy", output.Bad, r.Unhealthy)
	addAll("not ready", output.Bad, r.Reasons)
	if advice := Advise(node.Status(r)); advice.Text != "" {
		add("remedy", output.Plain(advice.Text+": "+advice.Command))
	}
	addAll("problem", output.Warn, r.Problems)
	addAll("output", output.Plain, r.Outputs)
	addAll("note", output.Plain, r.Notes)
	add("subnet", output.Plain(r.subnet()))
	add("uplink", output.Plain(r.uplink()))
	if r.MTU > 0 {
		add("mtu", output.Plain(fmt.Sprintf("%d bytes for pods", r.MTU)))
	}
	add("backend", output.Plain(cmp.Or(r.Backend, "not known yet")))
	for _, text := range r.change() {
		add("change", output.Warn(text))
	}
	for _, path := range r.PacketPaths {
		add("packets", output.Plain(fmt.Sprintf("%s: %s tier: %s", path.Link, path.Tier, path.Reason)))
	}
	add("store", r.store())
	add("lease", r.lease())
	add("firewall", output.Plain(cmp.Or(r.Firewall, "no rules are desired")))
	add("peers", r.peers())
	if r.Probes.Interval > 0 {
		add("probes", r.probes())
	}
	addAll("fault", output.Warn, r.Probes.Faults)
	for _, l := range r.Lanes {
		if l.Watched {
			add("lane "+l.Name, r.lane(l))
		}
	}
	for _, repair := range r.Repairs[:min(len(r.Repairs), shownRepairs)] {
		add("repair", output.Plain(fmt.Sprintf("%s ago: %s", Round(r.TakenAt.Sub(repair.At)), repair.Text)))
	}
	add("version", output.Plain(r.Version))
	return rows
}

func (r Result) phase() output.Cell {
	if r.Ready {
		return output.Good("ready")
	}
	return output.Bad(r.Phase.String() + ", not ready")
}

func (r Result) subnet() string {
	if !r.Subnet.IsValid() {
		return "none yet"
	}
	var texts []string
	for _, f := range cidr.Families {
		if subnet := r.Subnet.Of(f); subnet.IsValid() {
			texts = append(texts, subnet.String())
		}
	}
	return strings.Join(texts, ", ")
}

func (r Result) uplink() string {
	if r.Uplink.Link == "" {
		return "none yet"
	}
	text := r.Uplink.Link
	for _, f := range cidr.Families {
		addr, public := r.Uplink.Addr(f), r.Uplink.Public(f)
		if addr.IsValid() {
			text += " " + addr.String()
		}
		if public.IsValid() && public != addr {
			text += " (public " + public.String() + ")"
		}
	}
	return fmt.Sprintf("%s, %d bytes", text, r.Uplink.MTU)
}

func (r Result) change() []string {
	if r.Change == nil {
		return nil
	}
	var texts []string
	for _, f := range r.Change.Former {
		until := "the operator ends the change"
		if f.Until != nil {
			until = f.Until.UTC().Format(time.RFC3339)
		}
		texts = append(texts, fmt.Sprintf(
			"from %s to %s: the node keeps the previous backend until %s, and sends to %s by it; %s not followed",
			f.From, r.Change.To, until, output.Number(len(f.Sends), "peer"), output.Number(len(f.NotFollowed), "peer")))
	}
	return texts
}

func (r Result) store() output.Cell {
	about := fmt.Sprintf("revision %d", r.Revision)
	if r.Quarantined > 0 {
		about += ", " + output.Number(r.Quarantined, "quarantined record")
	}
	switch {
	case r.Synced && r.Quarantined > 0:
		return output.Warn("synced, " + about)
	case r.Synced:
		return output.Plain("synced, " + about)
	case r.SyncedAt.IsZero() && r.Stale:
		return output.Bad("never synced, working from saved leases: " + about)
	case r.SyncedAt.IsZero():
		return output.Bad("never synced")
	}
	return output.Bad(fmt.Sprintf("not synced since %s: %s", Round(r.TakenAt.Sub(r.SyncedAt)), about))
}

func (r Result) lease() output.Cell {
	switch {
	case r.Fenced:
		return output.Bad("fenced: the subnet may belong to another node")
	case !r.Subnet.IsValid():
		return output.Bad("none")
	case r.Expires.IsZero():
		return output.Plain("never ends")
	}
	left := r.Expires.Sub(r.TakenAt)
	if left <= 0 {
		return output.Bad(fmt.Sprintf("ended %s ago", Round(-left)))
	}
	text := fmt.Sprintf("ends in %s", Round(left))
	if !r.RenewBy.IsZero() {
		text += fmt.Sprintf(", renewed in %s", Round(r.RenewBy.Sub(r.TakenAt)))
	}
	return output.Plain(text)
}

func (r Result) peers() output.Cell {
	c := r.PeersBy
	parts := []string{fmt.Sprintf("%d served", c.Served)}
	for _, part := range []struct {
		number int
		what   string
	}{
		{c.Pending, "pending"}, {c.Refused, "refused"}, {c.Lost, "lost by the datastore"},
		{c.Former, "by a previous backend"},
	} {
		if part.number > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.number, part.what))
		}
	}
	text := strings.Join(parts, ", ")
	if c.Pending+c.Refused+c.Lost > 0 {
		return output.Warn(text)
	}
	return output.Plain(text)
}

// probes counts the peers, in each family, by what their answers mean.
func (r Result) probes() output.Cell {
	if r.Probes.Unable != "" {
		return output.Warn("none can be sent: " + r.Probes.Unable)
	}
	var parts []string
	for _, f := range []struct {
		finding probe.Finding
		what    string
	}{
		{probe.Well, "well"}, {probe.Unreachable, "unreachable"}, {probe.SizeLost, "lose large packets"},
		{probe.TCPLost, "lose TCP"}, {probe.ICMPLost, "lose ICMP"}, {probe.Unknown, "to be probed"},
	} {
		if number := r.Probes.By[f.finding]; number > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", number, f.what))
		}
	}
	if len(parts) == 0 {
		return output.Plain("no peer to probe")
	}
	return output.Plain(strings.Join(parts, ", "))
}

func (r Result) lane(l node.LaneStatus) output.Cell {
	looked := "not looked yet"
	if at := l.Work.LastLook; !at.IsZero() {
		looked = fmt.Sprintf("looked %s ago", Round(r.TakenAt.Sub(at)))
	}
	if l.AsDesired {
		return output.Plain("as desired, " + looked)
	}
	text := "not as desired, " + looked
	if l.FailingFor > 0 {
		text += ", " + output.Number(l.FailingFor, "attempt")
	}
	return output.Bad(text)
}

// Round returns a duration for people: in seconds, or in minutes if it is an hour or
// more.
func Round(d time.Duration) string {
	if d < time.Hour {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
