package sim

import (
	"context"
	"fmt"
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/driver/drivertest"
)

// TestDriverConforms runs the cases that were recorded from Linux.
func TestDriverConforms(t *testing.T) {
	drivertest.Run(t, func(*testing.T) drivertest.World {
		return bareHost{NewWorld(1).NewHost("n1")}
	})
}

// bareHost does a test's deeds to a host.
type bareHost struct{ h *Host }

func (b bareHost) Driver() driver.Driver { return b.h.Driver() }

func (b bareHost) Do(_ context.Context, d drivertest.Deed) error {
	h := b.h
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
		r.Other = "blackhole"
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
	do, ok := map[drivertest.DeedVerb]func(string) error{
		drivertest.Up:          h.LinkUp,
		drivertest.Down:        h.LinkDown,
		drivertest.CarrierOn:   func(l string) error { return h.Carrier(l, true) },
		drivertest.CarrierOff:  func(l string) error { return h.Carrier(l, false) },
		drivertest.FlushAddrs:  h.FlushAddrs,
		drivertest.FlushRoutes: h.FlushRoutes,
		drivertest.FlushNeighs: h.FlushNeigh,
		drivertest.FlushFDB:    h.FlushFDB,
	}[d.Verb]
	if !ok {
		return fmt.Errorf("unknown verb %q", d.Verb)
	}
	return do(d.Link)
}
