package scenarios

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/sim"
)

// addOutside makes the host outside. It knows only the router.
func (w *SimWorld) addOutside() error {
	w.outside = w.World.NewHost(outsideName)
	if err := w.plug(w.outside, "eth0", 0, outsideHost); err != nil {
		return err
	}
	for _, f := range cidr.Families {
		if f == cidr.V4 || w.top.hasIPv6() {
			if err := w.outside.DefaultRoute(underlayAddr(f, 0, routerHost).Addr()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Outward implements [World]: the router knows the way.
func (w *SimWorld) Outward(name string) error {
	var errs []error
	for _, op := range w.outward {
		errs = append(errs, w.router.Driver().Apply(context.Background(), []dataplane.Op{{Verb: dataplane.Delete, Object: op.Object}})...)
	}
	w.outward = nil
	n, ok := w.nodes[name]
	if !ok {
		return errors.Join(errs...)
	}
	network, err := config.Parse([]byte(w.top.Config))
	if err != nil {
		return err
	}
	for _, f := range w.top.Families {
		w.outward = append(w.outward, dataplane.Op{Verb: dataplane.Replace, Object: dataplane.Route{
			RouteKey: dataplane.RouteKey{Dst: network.Of(f).Network},
			Link:     fmt.Sprintf("eth%d", w.top.segment(n.index)), Via: n.uplinkAddr(f).Addr(), Protocol: dataplane.ProtocolBoot,
		}})
	}
	return errors.Join(append(errs, w.router.Driver().Apply(context.Background(), w.outward)...)...)
}

// simPlace is who can send and receive.
type simPlace struct {
	ping  func(netip.Addr, sim.PingOptions) *sim.Probe
	addrs [2]netip.Addr
}

// place finds "n1.pod", "n1" and "outside".
func (w *SimWorld) place(name string) (simPlace, error) {
	p := simPlace{}
	switch n, isNode := w.nodes[name]; {
	case name == outsideName && w.outside != nil:
		p.ping = w.outside.Ping
		for _, f := range w.top.Families {
			p.addrs[f] = underlayAddr(f, 0, outsideHost).Addr()
		}
	case isNode:
		p.ping = n.Ping
		for _, f := range w.top.Families {
			p.addrs[f] = n.uplinkAddr(f).Addr()
		}
	default:
		pod, err := w.pod(name)
		if err != nil {
			return p, err
		}
		p.ping, p.addrs = pod.Ping, pod.Addrs
	}
	return p, nil
}

func (w *SimWorld) places(from, to string, f cidr.Family) (a, b simPlace, err error) {
	if a, err = w.place(from); err != nil {
		return a, b, err
	}
	if b, err = w.place(to); err != nil {
		return a, b, err
	}
	if !a.addrs[f].IsValid() || !b.addrs[f].IsValid() {
		return a, b, fmt.Errorf("%s or %s has no %s address", from, to, f)
	}
	return a, b, nil
}

func (n *simNode) Rules() (driver.FirewallFacts, dataplane.State, error) {
	return n.Host.Firewall().Inspect(context.Background())
}

func (n *simNode) Strangers() (string, error) {
	var b strings.Builder
	for _, f := range cidr.Families {
		for _, hook := range dataplane.Hooks {
			for _, r := range n.ForeignRules(f, hook) {
				fmt.Fprintf(&b, "%s %s: %s\n", f, hook, r)
			}
		}
	}
	return b.String(), nil
}

func (n *simNode) Upset(kind string, o UpsetOptions) error {
	u, known := upsets()[kind]
	if !known {
		return fmt.Errorf("fault firewall %s: want one of %s", kind, strings.Join(sortedKeys(upsets()), ", "))
	}
	u.sim(n.Host, o)
	return nil
}
