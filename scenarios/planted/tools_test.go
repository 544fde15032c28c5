package planted

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/scenarios/lang"
	"github.com/flanneld/flannel/scenarios/search"
	"github.com/flanneld/flannel/tools/trace"
)

// refusals make a host differ from the desired state for as long as they last.
var refusals = []search.Step{
	{Line: "fault N ops EBUSY chance=1"}, {Line: "fault N flush routes flannel.1"}, {Line: "pass 5s"},
}

// telling is a node that falsifies its answers to the tools.
type telling struct {
	daemon.Machine
	differences func([]node.Difference) []node.Difference
	peers       func([]node.Peer) []node.Peer
}

func (t telling) Differences() []node.Difference {
	if t.differences == nil {
		return t.Machine.Differences()
	}
	return t.differences(t.Machine.Differences())
}

func (t telling) Peers() []node.Peer {
	if t.peers == nil {
		return t.Machine.Peers()
	}
	return t.peers(t.Machine.Peers())
}

// routeless leaves routes out of the difference.
func routeless(n daemon.Machine) daemon.Machine {
	return telling{Machine: n, differences: func(all []node.Difference) []node.Difference {
		for i := range all {
			all[i].Lines = slices.DeleteFunc(all[i].Lines, func(l node.Line) bool {
				return strings.HasPrefix(l.Object, "route ")
			})
		}
		return all
	}}
}

// unforgetting shows the last difference until there is another one.
func unforgetting(n daemon.Machine) daemon.Machine {
	last := map[string][]node.Line{}
	return telling{Machine: n, differences: func(all []node.Difference) []node.Difference {
		for i, d := range all {
			if len(d.Lines) > 0 {
				last[d.Lane] = d.Lines
			}
			all[i].Lines = last[d.Lane]
		}
		return all
	}}
}

// boasting says that it has programmed the newest revision that it knows.
type boasting struct{ daemon.Machine }

func (b boasting) Pulse() node.Pulse {
	p := b.Machine.Pulse()
	if p.Programmed > 0 {
		p.Programmed = b.Status().Revision
	}
	return p
}

// remembering keeps the lines of the packet filter's difference after each turn, and shows the
// last ones until there are others.
type remembering struct {
	daemon.Machine
	lines []node.Line
}

func unforgettingFilter(n daemon.Machine) daemon.Machine { return &remembering{Machine: n} }

func (r *remembering) Step(now time.Time, in node.Input) {
	r.Machine.Step(now, in)
	r.Differences()
}

func (r *remembering) Differences() []node.Difference {
	all := r.Machine.Differences()
	for i, d := range all {
		if d.Lane != node.FirewallLane.String() {
			continue
		}
		if len(d.Lines) > 0 {
			r.lines = d.Lines
		}
		all[i].Lines = r.lines
	}
	return all
}

// persisting returns a defect of the probes: a peer keeps a finding that it has had once.
func persisting(finding probe.Finding) func(daemon.Machine) daemon.Machine {
	return func(n daemon.Machine) daemon.Machine {
		had := map[netip.Prefix]bool{}
		return telling{Machine: n, peers: func(all []node.Peer) []node.Peer {
			for i := range all {
				ways := slices.Clone(all[i].Ways)
				for j, way := range ways {
					if way.Probe == nil {
						continue
					}
					result := *way.Probe
					had[way.Subnet] = had[way.Subnet] || result.Finding == finding
					if had[way.Subnet] {
						result.Finding = finding
					}
					ways[j].Probe = &result
				}
				all[i].Ways = ways
			}
			return all
		}}
	}
}

// misled is a kernel with one wrong answer to trace. A nil member is right.
type misled struct {
	trace.Kernel
	view      func(*trace.View) *trace.View
	route     func(trace.Question, trace.Route, error) (trace.Route, error)
	neighbour func(trace.Neighbour) trace.Neighbour
}

func (m misled) View(ctx context.Context, networks []netip.Prefix) (*trace.View, error) {
	v, err := m.Kernel.View(ctx, networks)
	if err != nil || m.view == nil {
		return v, err
	}
	return m.view(v), nil
}

func (m misled) Route(q trace.Question) (trace.Route, error) {
	r, err := m.Kernel.Route(q)
	if m.route == nil {
		return r, err
	}
	return m.route(q, r, err)
}

func (m misled) Neighbour(link string, ip netip.Addr) (trace.Neighbour, error) {
	n, err := m.Kernel.Neighbour(link, ip)
	if err != nil || m.neighbour == nil {
		return n, err
	}
	return m.neighbour(n), nil
}

// strict takes every neighbour for one that does not answer.
func strict(k trace.Kernel) trace.Kernel {
	return misled{Kernel: k, neighbour: func(n trace.Neighbour) trace.Neighbour {
		n.Failed = true
		return n
	}}
}

// rememberingView shows trace what the host held at the first question.
func rememberingView(k trace.Kernel) trace.Kernel {
	var first *trace.View
	return misled{Kernel: k, view: func(v *trace.View) *trace.View {
		if first == nil {
			first = v
		}
		return first
	}}
}

// supposing answers with the route that flannel makes where the host has none to a pod: by the
// nearest entry of a neighbour.
func supposing(k trace.Kernel) trace.Kernel {
	var seen *trace.View
	return misled{Kernel: k, view: func(v *trace.View) *trace.View {
		seen = v
		return v
	}, route: func(q trace.Question, r trace.Route, err error) (trace.Route, error) {
		byRouter := err == nil && r.Via.Is4() && r.Via.As4()[3] == lang.RouterHost
		if seen == nil || !byRouter && !errors.Is(err, trace.ErrNoRoute) {
			return r, err
		}
		var best trace.Route
		for key := range seen.State.Neighs.All {
			if key.Link == "flannel.1" && !q.Dst.Less(key.IP) && best.Via.Less(key.IP) {
				best = trace.Route{Link: key.Link, Via: key.IP}
			}
		}
		if best.Link != "flannel.1" || !netip.PrefixFrom(best.Via, 16).Masked().Contains(q.Dst) {
			return r, err
		}
		return best, nil
	}}
}
