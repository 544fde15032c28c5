package planted

import (
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/daemon"
)

// early calls itself ready as soon as it holds a lease.
type early struct{ daemon.Machine }

func (e early) Pulse() node.Pulse {
	p := e.Machine.Pulse()
	if _, holds := e.Holding(); holds {
		p.Phase, p.Reasons = node.PhaseReady, nil
	}
	return p
}

func readyTooEarly(n daemon.Machine) daemon.Machine { return early{n} }

// serene still calls itself ready while the datastore does not answer.
type serene struct {
	daemon.Machine
	was *bool // it was ready, and nothing else has happened since
}

func (s serene) Pulse() node.Pulse {
	p := s.Machine.Pulse()
	*s.was = p.Phase == node.PhaseReady || *s.was && len(p.Reasons) == 1
	if *s.was {
		p.Phase = node.PhaseReady
	}
	return p
}

func readyWithoutStore(n daemon.Machine) daemon.Machine { return serene{n, new(bool)} }

// sure claims its lease until the datastore says that the lease is gone.
type sure struct {
	daemon.Machine
	held *lease.Key
}

func (s sure) Step(now time.Time, in node.Input) {
	s.Machine.Step(now, in)
	if key, holds := s.Machine.Holding(); holds {
		*s.held = key
	}
}

func (s sure) Ready() node.Effects {
	r := s.Machine.Ready()
	for _, e := range r.Events {
		if e.Kind == "lease-lost" {
			*s.held = lease.Key{}
		}
	}
	return r
}

func (s sure) Holding() (lease.Key, bool) { return *s.held, s.held.IsValid() }

func neverExpired(n daemon.Machine) daemon.Machine { return sure{n, new(lease.Key)} }

// hintless does not hear that something has changed on its host.
func hintless(n daemon.Machine) daemon.Machine {
	return machine{n, func(in node.Input) node.Input {
		in.Lanes[node.HostLane].Hint = false
		return in
	}, nil}
}

// blindToFile takes its subnet file for present, whatever a look shows.
func blindToFile(n daemon.Machine) daemon.Machine {
	var written []byte
	return machine{n, func(in node.Input) node.Input {
		host := &in.Lanes[node.HostLane]
		if host.Looked != nil && written != nil {
			looked := *host.Looked
			looked.SubnetFile = written
			host.Looked = &looked
		}
		return in
	}, func(r node.Effects) node.Effects {
		for _, w := range r.Writes {
			if w.File == node.SubnetFile {
				written = w.Data
			}
		}
		return r
	}}
}

// lastMinute renews its lease shortly before it ends.
func lastMinute(n daemon.Machine) daemon.Machine {
	var ends time.Time
	return &late{Machine: n, step: func(l *late, in node.Input) {
		if in.Requested != nil && in.Requested.Err == nil {
			g := in.Requested.Grant
			ends, l.until = g.Expires, g.Expires.Add(-g.TTL/10)
		}
	}, hold: func(l *late, r *node.Effects) bool {
		if r.Request != nil && r.Request.Verb != node.Renew || ends.IsZero() {
			return false
		}
		return l.holdRequest(r)
	}}
}

// skipping takes in only every other snapshot.
func skipping() func(lease.Snapshot) lease.Snapshot {
	count := 0
	var last lease.Snapshot
	return func(s lease.Snapshot) lease.Snapshot {
		count++
		if count > 1 && count%2 == 0 {
			return last
		}
		last = s
		return s
	}
}

// restless publishes the newest address of its uplink.
func restless() *body {
	return &body{facts: func(f driver.HostFacts) driver.HostFacts {
		f.Links = slices.Clone(f.Links)
		for i, l := range f.Links {
			if l.Name == "eth0" {
				f.Links[i].Addrs = newestOnly(l.Addrs)
			}
		}
		return f
	}}
}

// vip is the second address in the steps that expose restless.
var vip = netip.MustParseAddr("192.168.64.77")

func newestOnly(addrs []driver.LinkAddr) []driver.LinkAddr {
	second := func(a driver.LinkAddr) bool { return a.Prefix.Addr() == vip }
	if !slices.ContainsFunc(addrs, second) {
		return addrs
	}
	older := func(a driver.LinkAddr) bool { return a.Prefix.Addr().Is4() && !second(a) }
	return slices.DeleteFunc(slices.Clone(addrs), older)
}

// leaving deletes some objects only in its own view: they stay, and it does not see them any more.
func leaving(what func(dataplane.Object) bool) func() *body {
	return func() *body {
		left := map[string]dataplane.Object{}
		return &body{
			observe: func(s *dataplane.State) *dataplane.State {
				for _, o := range left {
					remember(s, dataplane.Op{Verb: dataplane.Delete, Object: o})
				}
				return s
			},
			apply: func(op dataplane.Op) (dataplane.Op, bool) {
				text := op.Object.String()
				if op.Verb == dataplane.Delete && what(op.Object) {
					left[text] = op.Object
					return op, false
				}
				delete(left, text)
				return op, true
			},
		}
	}
}

func neighbours(o dataplane.Object) bool {
	_, is := o.(dataplane.Neigh)
	return is
}

func nextHops(o dataplane.Object) bool {
	_, is := o.(dataplane.NextHop)
	return is
}

func forwarding(o dataplane.Object) bool {
	_, is := o.(dataplane.FDBEntry)
	return is
}

func addresses(o dataplane.Object) bool {
	_, is := o.(dataplane.Addr)
	return is
}

func routes6(o dataplane.Object) bool {
	r, is := o.(dataplane.Route)
	return is && r.Dst.Addr().Is6()
}

// foreignHost is the address of the host that is no node, in the steps that expose
// keeping.
var foreignHost = netip.MustParseAddr("192.168.64.99")

// keeping serves a host that is no node forever, once it has known its record.
func keeping() func(lease.Snapshot) lease.Snapshot {
	known := map[lease.Key]*lease.Lease{}
	return func(s lease.Snapshot) lease.Snapshot {
		now := map[lease.Key]bool{}
		for _, l := range s.Leases {
			known[l.Key], now[l.Key] = l, true
		}
		for key, l := range known {
			if !now[key] && l.Attrs.PublicIP == foreignHost {
				s.Leases = append(s.Leases, l)
			}
		}
		slices.SortFunc(s.Leases, func(a, b *lease.Lease) int { return a.Key.Compare(b.Key) })
		return s
	}
}

// sleepyGuard looks at the firewall only after a hint.
func sleepyGuard(n daemon.Machine) daemon.Machine {
	hinted, begun := false, false
	return machine{n, func(in node.Input) node.Input {
		lane := in.Lanes[node.FirewallLane]
		hinted = hinted || lane.Hint || lane.Applied != nil
		return in
	}, func(r node.Effects) node.Effects {
		lane := &r.Lanes[node.FirewallLane]
		if lane.Look != nil && begun && !hinted {
			lane.Look = nil // and so the lane waits forever
		}
		if lane.Look != nil {
			begun, hinted = true, false
		}
		return r
	}}
}
