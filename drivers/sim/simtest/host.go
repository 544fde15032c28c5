package simtest

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/drivertest"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// Host is a host in a world of its own, as a [drivertest.World].
type Host struct{ *kernel.Host }

// NewHost returns a host whose random numbers derive from the seed.
func NewHost(seed uint64) Host {
	h := kernel.NewNetwork(world.New(seed)).NewHost("n1")
	h.UseSecrets(drivertest.Secrets{})
	return Host{h}
}

// Close does nothing: a simulated host leaves nothing behind.
func (h Host) Close() error { return nil }

// Do implements [drivertest.World].
func (h Host) Do(_ context.Context, d drivertest.Action) error {
	switch d.Verb {
	case drivertest.Add:
		switch o := d.Object.(type) {
		case dataplane.Link:
			return h.AddEthernet(o)
		case dataplane.Route:
			return h.RouteAdd(o)
		}
		return h.Add(d.Object)
	case drivertest.Append:
		return h.RouteAppend(d.Object.(dataplane.Route))
	case drivertest.AddBlackhole:
		r := d.Object.(dataplane.Route)
		r.Kind = dataplane.Blackhole
		r.Link = ""
		r.Via = netip.Addr{}
		r.OnLink = false
		return h.RouteAdd(r)
	case drivertest.Learn:
		return h.Learn(d.Object)
	case drivertest.Remove:
		return h.Remove(d.Object)
	case drivertest.SetMTU:
		return h.SetMTU(d.Link, d.MTU)
	case drivertest.SetMAC:
		return h.SetMAC(d.Link, d.MAC)
	}
	do, ok := map[drivertest.ActionVerb]func(string) error{
		drivertest.Up:          h.LinkUp,
		drivertest.Down:        h.LinkDown,
		drivertest.CarrierOn:   func(l string) error { return h.Carrier(l, true) },
		drivertest.CarrierOff:  func(l string) error { return h.Carrier(l, false) },
		drivertest.FlushAddrs:  h.FlushAddrs,
		drivertest.FlushRoutes: h.FlushRoutes,
		drivertest.FlushNeighs: h.FlushNeigh,
		drivertest.FlushFDB:    h.FlushFDB,
		drivertest.DivertFDB:   h.DivertFDB,
	}[d.Verb]
	if !ok {
		return fmt.Errorf("unknown verb %q", d.Verb)
	}
	return do(d.Link)
}
