package api

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/internal/pause"
)

// Every is the time between two questions about something that the provider is
// still doing (interop 6.9: gce is polled each second).
const Every = time.Second

// Poll calls done once a second until it returns true or an error, at most the
// given number of times.
func Poll(ctx context.Context, doing string, times int, done func(ctx context.Context) (bool, error)) error {
	for n := 1; ; n++ {
		if ok, err := done(ctx); ok || err != nil {
			return err
		}
		if n == times {
			return &Fault{Doing: doing, Text: "the provider has not finished it in time"}
		}
		if !pause.For(ctx, Every) {
			return &Fault{Class: ctx.Err(), Doing: doing, Text: "the provider has not finished it"}
		}
	}
}

// Await polls the routes until the one in the table to dst leads to this instance
// and is active.
func Await(ctx context.Context, c cloud.Client, doing, table string, dst netip.Prefix) error {
	var last cloud.State
	err := Poll(ctx, doing, 60, func(ctx context.Context) (bool, error) {
		routes, err := c.Routes(ctx)
		if err != nil {
			return false, err
		}
		for _, r := range routes {
			if r.Table == table && r.Dst == dst && r.Self {
				last = r.State
			}
		}
		return last == cloud.Active, nil
	})
	var fault *Fault
	if errors.As(err, &fault) && last != "" && fault.Code == "" {
		fault.Code = "state " + string(last)
	}
	return err
}

// Check compares a route that is to be deleted with the provider's present
// routes, and returns the present one. Another instance may have made its own
// route to the same destination meanwhile.
func Check(routes []cloud.Route, route cloud.Route) (cloud.Route, error) {
	missing := &Fault{Class: cloud.ErrNotFound, Doing: "route to " + route.Dst.String() + " in " + route.Table}
	for _, r := range routes {
		if r.Table != route.Table || r.Dst != route.Dst || r.ID != route.ID {
			continue
		}
		if r.Target == route.Target {
			return r, nil
		}
		missing.Text = "it leads to " + r.Target + " by now"
	}
	return cloud.Route{}, missing
}
