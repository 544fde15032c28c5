package simworld

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/tools/ruleset"
	"github.com/flanneld/flannel/tools/trace"
)

// simKernel answers for a simulated host.
type simKernel struct{ host *kernel.Host }

// Kernel implements [lang.TraceHost].
func (n *simNode) Kernel(context.Context) (k trace.Kernel, done func(), err error) {
	k = simKernel{n.Host}
	for _, d := range n.world.defects {
		if d.Trace != nil {
			k = d.Trace(n.Name(), k)
		}
	}
	return k, func() {}, nil
}

// PodAddr implements [lang.TraceHost].
func (n *simNode) PodAddr(f cidr.Family) netip.Addr {
	if n.pod == nil {
		return netip.Addr{}
	}
	return n.pod.Addr(f)
}

// View implements [trace.Kernel].
func (k simKernel) View(ctx context.Context, networks []netip.Prefix) (*trace.View, error) {
	view, err := trace.Look(ctx, k.host.Driver(), k.host.Firewall(), networks)
	if err != nil {
		return nil, err
	}
	for _, f := range cidr.Families {
		for _, t := range k.host.SavedTables(f) {
			view.Rules[f] = append(view.Rules[f], ruleset.IPTables(t.Name, t.Text)...)
		}
	}
	return view, nil
}

// Route implements [trace.Kernel].
func (k simKernel) Route(q trace.Question) (trace.Route, error) {
	way, why := k.host.Way(q.Src, q.Dst, q.In)
	switch why {
	case "":
		return trace.Route{Local: way.Local, Link: way.Link, Via: way.Via, Src: way.Src}, nil
	case kernel.DropNoRoute:
		return trace.Route{}, trace.ErrNoRoute
	case kernel.DropBlackhole:
		return trace.Route{}, trace.ErrBlackhole
	case kernel.DropRPFilter, kernel.DropMartian:
		return trace.Route{}, trace.ErrSource
	}
	return trace.Route{}, fmt.Errorf("route to %s: %s", q.Dst, why)
}

// Neighbour implements [trace.Kernel]. The simulator asks a segment at once.
func (k simKernel) Neighbour(link string, ip netip.Addr) (trace.Neighbour, error) {
	mac, why := k.host.Neighbour(link, ip)
	return trace.Neighbour{Exists: true, MAC: mac, Failed: why != ""}, nil
}
