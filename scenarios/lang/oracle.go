package lang

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/backend/backends"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/scenarios/check/oracle"
)

// converged returns an error while a node's kernel differs from the demand of
// the records in the store. It does not ask the daemon, which believes that all
// is well until it has noticed a fault.
func (s *Session) converged(name string, n Node, records []ownedRecord) error {
	short, err := s.shortage(name, n, records)
	if err != nil {
		return err
	}
	if len(short) > 0 {
		return fmt.Errorf("%d objects differ, first: %s", len(short), short[0])
	}
	s.endpointsSeen[name] = true
	return nil
}

// shortage names the objects in which a node's kernel differs from the demand
// of the records.
func (s *Session) shortage(name string, n Node, records []ownedRecord) ([]string, error) {
	host, err := s.host(name, n)
	if err != nil {
		return nil, err
	}
	own, others := split(name, n, records)
	host.Changing = host.Changed && !s.changeEnds()
	host.Changed = host.Changing
	if host.Changing && !s.follows(own) {
		return nil, fmt.Errorf("its record does not offer %s", s.network.Backend.Type)
	}
	if !host.Changing {
		host.Formerly = s.formerly
		if len(own.Attrs.Ways.Former) > 0 {
			return nil, fmt.Errorf("still offers %s", own.Attrs.Ways.Former[0].Backend)
		}
	}
	if err := s.fits(own.Key); err != nil {
		return nil, err
	}
	if err := publishes(own, host); err != nil {
		return nil, err
	}
	chains := dataplane.NewState()
	if s.top.Firewalled() {
		filter, err := able[Firewall](s, n)
		if err != nil {
			return nil, err
		}
		facts, have, err := filter.Rules()
		if err != nil {
			return nil, err
		}
		chains, host.Tools = have, facts.Tools
	}
	demand, err := oracle.Demanded(host, own, others)
	if err != nil {
		return nil, err
	}
	k, err := able[Kernel](s, n)
	if err != nil {
		return nil, err
	}
	have, err := k.State(demand.Extent())
	if err != nil {
		return nil, err
	}
	return demand.Short(have, chains), nil
}

// backendChanged reports whether a former config had another Backend object. Only then may a
// node keep objects for a peer that has not followed.
func (s *Session) backendChanged() bool {
	now := backendOf(s.config)
	return slices.ContainsFunc(s.formerly, func(text string) bool { return !reflect.DeepEqual(backendOf(text), now) })
}

// backendOf returns the Backend object of a network config, in any order of its members.
func backendOf(text string) map[string]any {
	var network struct{ Backend map[string]any }
	_ = json.Unmarshal([]byte(text), &network) // an unusable config counts as a different one
	return network.Backend
}

// follows reports whether a record offers the backend of the config in force.
func (s *Session) follows(own lease.Lease) bool {
	spec, _ := all.Find(s.network.Backend.Type)
	id, err := spec.Identity(s.network.Backend, backend.FamiliesOf(s.network))
	return s.configErr != nil || err != nil || spec.IgnoresPeers || backends.Offers(&own.Attrs, id)
}

// changeEnds reports whether the operator has ended the change of the backend, or nodes keep no previous one.
func (s *Session) changeEnds() bool {
	ended := s.network.Formerly != nil && len(s.network.Formerly) == 0
	networks := s.siblings != nil && s.network.Formerly == nil // one beside others keeps none
	return ended || networks || isAlone(s.network.Backend) || !slices.ContainsFunc(s.formerly, func(text string) bool {
		former, err := config.Parse([]byte(text))
		return err == nil && !isAlone(former.Backend)
	})
}

// isAlone reports whether no host can have another backend beside this one.
func isAlone(b config.Backend) bool {
	spec, known := all.Find(b.Type)
	return known && (spec.Alone || spec.IgnoresPeers)
}

// fits returns an error if a subnet does not fit the config in force: its node has
// not seen that config yet. The subnets of Kubernetes nodes are assigned.
func (s *Session) fits(key lease.Key) error {
	if s.configErr != nil || s.top.Kube {
		return nil // the nodes keep the former config
	}
	return alloc.Compatible(s.network, key)
}

// publishes returns an error if a node's record holds another address than the
// host's, in a family of its subnet: the node has not noticed the change yet.
func publishes(own lease.Lease, host oracle.Host) error {
	for _, f := range cidr.Families {
		if own.Key.Of(f).IsValid() && own.Attrs.IP(f) != host.Uplink.Public[f] {
			return fmt.Errorf("publishes %s, has %s", own.Attrs.IP(f), host.Uplink.Public[f])
		}
	}
	return nil
}

// split returns a node's own record and those of all others. If a node has two
// records, such as a reservation that it cannot use, the announced one counts.
func split(name string, n Node, records []ownedRecord) (own lease.Lease, others []lease.Lease) {
	for _, r := range records {
		switch {
		case !r.valid:
			continue
		case r.owner != name:
			others = append(others, r.lease)
		case !own.Key.IsValid() || announces(n, r.lease.Key):
			own = r.lease
		}
	}
	return own, others
}

// announces reports whether a node's subnet file holds a subnet, with each half.
func announces(n Node, key lease.Key) bool {
	file := n.SubnetFile()
	for _, f := range cidr.Families {
		p := key.Of(f)
		if !p.IsValid() && strings.Contains(file, cidr.Pick(f, "FLANNEL_SUBNET=", "FLANNEL_IPV6_SUBNET=")) {
			return false
		}
		if p.IsValid() && !strings.Contains(file, fmt.Sprintf("=%s/%d\n", p.Addr().Next(), p.Bits())) {
			return false
		}
	}
	return true
}

// host describes a node's host after the topology and the faults so far.
func (s *Session) host(name string, n Node) (oracle.Host, error) {
	i := s.nodeIndex(name)
	if i < 0 {
		return oracle.Host{}, fmt.Errorf("no node %q", name)
	}
	h := oracle.Host{
		Config: s.config, Blackhole: s.top.Blackhole, IPForward: s.top.IPForward,
		Masquerade: s.top.Firewalled(), Forward: s.top.Firewalled(),
		Changed: s.backendChanged(), EndpointsSeen: s.endpointsSeen[name],
		StateLost: s.stateLost[name],
		Uplink:    oracle.Uplink{Link: "eth0", MTU: s.top.MTU}, NoIPv6: slices.Contains(s.top.NoIPv6, name),
	}
	h.Forged = s.Forgeries()
	if mtu, ok := s.mtus[name]; ok {
		h.Uplink.MTU = mtu
	}
	for _, m := range s.siblings {
		if m != s && !m.absent && !s.top.Apart {
			h.Beside = append(h.Beside, m.config)
		}
	}
	_, shows := n.(ProcessState)
	h.NoProcess = !shows
	for _, f := range s.top.Families {
		h.Uplink.Segment[f] = UnderlayAddr(f, s.top.Segment(i), 0).Masked()
		h.Uplink.Addr[f] = s.address(i, f)
		h.Uplink.Public[f] = h.Uplink.Addr[f]
		if public, ok := s.published(name, f); ok {
			h.Uplink.Public[f] = public
		}
	}
	return h, nil
}

// backend returns the backend of the config in force.
func (s *Session) backend() (backend.Backend, config.Network, error) {
	if s.configErr != nil {
		return nil, s.network, s.configErr
	}
	b, err := all.New(s.network)
	return b, s.network, err
}

// extent returns the part of a host that the backend owns.
func (s *Session) extent() (dataplane.Extent, error) {
	b, network, err := s.backend()
	if err != nil {
		return dataplane.Extent{}, err
	}
	e := b.Extent()
	for _, f := range cidr.Families {
		if p := network.Of(f).Network; p.IsValid() {
			e.Networks = append(e.Networks, p)
		}
	}
	return e, nil
}
