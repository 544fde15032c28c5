package lang

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/reconcile"
	"github.com/flanneld/flannel/core/uplink"
)

// converged says what still parts a node's kernel from what the records in the
// store demand. It asks neither the daemon nor its memory: a daemon that has
// not noticed a fault yet believes that all is well.
func (s *Session) converged(name string, n Node, records []Record) error {
	ops, err := s.shortage(name, n, records)
	if err != nil {
		return err
	}
	if len(ops) > 0 {
		return fmt.Errorf("%d changes short, first: %s", len(ops), ops[0])
	}
	return nil
}

// shortage is what would make a node's kernel what the records demand.
func (s *Session) shortage(name string, n Node, records []Record) ([]dataplane.Op, error) {
	b, network, err := s.backend()
	if err != nil {
		return nil, err
	}
	env := s.env(name, network)
	var self backend.Self
	var peers []*lease.Lease
	for _, r := range records {
		l, ok := r.lease()
		switch {
		case !ok:
		case s.owner(l) == name:
			// Of two, such as a reservation that it cannot use, the one it announces.
			if !self.Key.IsValid() || s.announces(n, l.Key) {
				self = backend.Self{Key: l.Key, Attrs: l.Attrs}
			}
		default:
			peers = append(peers, &l)
		}
	}
	if self.Attrs.IP(s.top.Families[0]) != env.Uplink.Public(s.top.Families[0]) {
		return nil, fmt.Errorf("publishes %s, has %s", s.owner(lease.Lease{Attrs: self.Attrs}), env.Uplink.IP)
	}
	want, _ := b.Render(env, self, peers)
	if s.top.Blackhole {
		for _, r := range firewall.Blackhole(self.Key) {
			want.AddRoute(r)
		}
	}
	rules, err := s.rulesShort(n, network, self.Key)
	if err != nil {
		return nil, err
	}
	extent, err := s.extent()
	if err != nil {
		return nil, err
	}
	k, err := able[Kernel](s, n)
	if err != nil {
		return nil, err
	}
	have, err := k.State(extent)
	if err != nil {
		return nil, err
	}
	if _, shows := n.(ProcessState); !shows {
		want.Proxies, want.Peers = nil, nil // a kernel shows nothing of what a process runs
	}
	own := reconcile.Ownership{Links: map[string]bool{}, Networks: extent.Networks}
	for _, l := range extent.Links {
		own.Links[l] = true
	}
	return append(reconcile.Diff(want, have, reconcile.Options{Own: own, Prune: true}).Ops, rules...), nil
}

// announces reports whether a node's subnet file holds a subnet.
func (s *Session) announces(n Node, key lease.Key) bool {
	file := n.SubnetFile()
	for _, f := range s.top.Families {
		if p := key.Of(f); !strings.Contains(file, fmt.Sprintf("=%s/%d\n", p.Addr().Next(), p.Bits())) {
			return false
		}
	}
	return true
}

// backend is that of the config in force.
func (s *Session) backend() (backend.Backend, config.Network, error) {
	network, err := config.Parse([]byte(s.config))
	if err != nil {
		return nil, network, err
	}
	b, err := all.New(network)
	return b, network, err
}

// extent is the part of a host that the backend owns.
func (s *Session) extent() (dataplane.Extent, error) {
	b, network, err := s.backend()
	if err != nil {
		return dataplane.Extent{}, err
	}
	e := b.Extent()
	for _, f := range s.top.Families {
		e.Networks = append(e.Networks, network.Of(f).Network)
	}
	return e, nil
}

// env is what the topology and the faults so far have made of a node's surroundings.
func (s *Session) env(name string, network config.Network) backend.Env {
	env := backend.Env{Config: network, Uplink: uplink.Uplink{Link: "eth0", MTU: s.top.MTU}}
	if mtu, ok := s.mtus[name]; ok {
		env.Uplink.MTU = mtu
	}
	for i, other := range s.top.NodeNames() {
		if other != name {
			continue
		}
		for _, f := range s.top.Families {
			segment := UnderlayAddr(f, s.top.Segment(i), 0).Masked()
			env.Facts.Routes = append(env.Facts.Routes,
				driver.Route{Dst: segment, Hops: []driver.Hop{{Link: "eth0"}}},
				driver.Route{
					Dst:  netip.PrefixFrom([]netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}[f], 0),
					Hops: []driver.Hop{{Link: "eth0", Via: UnderlayAddr(f, s.top.Segment(i), RouterHost).Addr()}},
				})
			ip := s.address(i, f)
			public, ok := s.published(name, f)
			if !ok {
				public = ip
			}
			if f == cidr.V4 {
				env.Uplink.IP, env.Uplink.PublicIP = ip, public
			} else {
				env.Uplink.IPv6, env.Uplink.PublicIPv6 = ip, public
			}
		}
	}
	return env
}
