package planted

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/scenarios/simworld"
)

// eyes falsifies a process's snapshots.
type eyes struct {
	daemon.Requester
	see     func(lease.Snapshot) lease.Snapshot
	of, out *lease.Snapshot
}

func (e *eyes) View() lease.View {
	v := e.Requester.View()
	if v.Snapshot == nil {
		return v
	}
	if v.Snapshot != e.of {
		seen := *v.Snapshot
		seen.Leases = ownCopies(seen.Leases)
		seen = e.see(seen)
		e.of, e.out = v.Snapshot, &seen
	}
	v.Snapshot = e.out
	return v
}

// ownCopies returns copies of leases, for a defect to change.
func ownCopies(leases []*lease.Lease) []*lease.Lease {
	var out []*lease.Lease
	for _, l := range leases {
		out = append(out, new(*l))
	}
	return out
}

// seeing returns a defect: eyes, new for each process.
func seeing(begin func() func(lease.Snapshot) lease.Snapshot) func() simworld.Wrap {
	return func() simworld.Wrap {
		return func(_ string, p daemon.Parts) daemon.Parts {
			p.Client = &eyes{Requester: p.Client, see: begin()}
			return p
		}
	}
}

// e1 sees no record at all if one of them does not parse.
func e1() func(lease.Snapshot) lease.Snapshot {
	return func(s lease.Snapshot) lease.Snapshot {
		if len(s.Quarantined) > 0 {
			s.Leases = nil
		}
		return s
	}
}

// e11 keeps the first version of a peer's record.
func e11() func(lease.Snapshot) lease.Snapshot {
	known := map[lease.Key]lease.Attrs{}
	return func(s lease.Snapshot) lease.Snapshot {
		now := map[lease.Key]lease.Attrs{}
		for _, l := range s.Leases {
			if a, ok := known[l.Key]; ok {
				l.Attrs = a
			}
			now[l.Key] = l.Attrs
		}
		known = now
		return s
	}
}

// machine is a node with a wrapped Step and Ready.
type machine struct {
	daemon.Machine
	in  func(node.Input) node.Input
	out func(node.Effects) node.Effects
}

func (m machine) Step(now time.Time, in node.Input) {
	if m.in != nil {
		in = m.in(in)
	}
	m.Machine.Step(now, in)
}

func (m machine) Ready() node.Effects {
	r := m.Machine.Ready()
	if m.out != nil {
		r = m.out(r)
	}
	return r
}

// living returns a defect: a wrapped node.
func living(around func(daemon.Machine) daemon.Machine) func() simworld.Wrap {
	return func() simworld.Wrap {
		return func(_ string, p daemon.Parts) daemon.Parts {
			p.Node = around(p.Node)
			return p
		}
	}
}

// e3 exits when it loses a race.
func e3(n daemon.Machine) daemon.Machine {
	var lost error
	return machine{n, func(in node.Input) node.Input {
		if in.Requested != nil && errors.Is(in.Requested.Err, lease.ErrConflict) {
			lost = in.Requested.Err
		}
		return in
	}, func(r node.Effects) node.Effects {
		if lost != nil {
			r.Exit = &node.Exit{Status: 1, Reason: lost.Error()}
		}
		return r
	}}
}

// e7 does not see records that overlap its own.
func e7(n daemon.Machine) daemon.Machine {
	var own lease.Key
	return machine{n, func(in node.Input) node.Input {
		if in.View != nil && in.View.Snapshot != nil {
			view, snap := *in.View, *in.View.Snapshot
			snap.Leases = slices.DeleteFunc(slices.Clone(snap.Leases), func(l *lease.Lease) bool {
				return l.Key != own && l.Key.Overlaps(own)
			})
			view.Snapshot = &snap
			in.View = &view
		}
		return in
	}, func(r node.Effects) node.Effects {
		if r.Request != nil && r.Request.Verb == node.Create {
			own = r.Request.Key
		}
		return r
	}}
}

// e11own misses its own record from the second snapshot on.
func e11own(n daemon.Machine) daemon.Machine {
	return machine{n, func(in node.Input) node.Input {
		if own, ok := n.Holding(); ok && in.View != nil && in.View.Snapshot != nil {
			view, snap := *in.View, *in.View.Snapshot
			snap.Leases = slices.DeleteFunc(slices.Clone(snap.Leases), func(l *lease.Lease) bool { return l.Key == own })
			view.Snapshot = &snap
			in.View = &view
		}
		return in
	}, nil}
}

// forgetful takes all records of a former run for other nodes' records.
func forgetful(n daemon.Machine) daemon.Machine {
	var former map[lease.Key]bool
	return machine{n, func(in node.Input) node.Input {
		if in.View == nil || in.View.Snapshot == nil {
			return in
		}
		view, snap := *in.View, *in.View.Snapshot
		snap.Leases = ownCopies(snap.Leases)
		first := former == nil
		if first {
			former = map[lease.Key]bool{}
		}
		for _, l := range snap.Leases {
			former[l.Key] = former[l.Key] || first
			if former[l.Key] {
				l.Attrs.PublicIP = netip.MustParseAddr("192.168.64.99")
			}
		}
		view.Snapshot = &snap
		in.View = &view
		return in
	}, nil}
}

// impatient polls for work in a hot loop.
func impatient(n daemon.Machine) daemon.Machine {
	var now time.Time
	return clocked{machine{n, nil, func(r node.Effects) node.Effects {
		r.Wake = now.Add(time.Millisecond)
		return r
	}}, &now}
}

// clocked notes the time of each Step.
type clocked struct {
	machine
	now *time.Time
}

func (c clocked) Step(now time.Time, in node.Input) {
	*c.now = now
	c.machine.Step(now, in)
}

// hands falsify a process's requests.
type hands struct {
	daemon.Requester
	client *store.Client
	do     func(h hands, req node.Request, done func(node.Requested)) bool
}

func (h hands) Do(req node.Request, done func(node.Requested)) {
	if !h.do(h, req, done) {
		h.Requester.Do(req, done)
	}
}

// overwrite writes without a condition, as upstream renews, updates and reuses leases.
func (h hands) overwrite(req node.Request, done func(node.Requested)) bool {
	if req.Attrs.BackendType == "" {
		req.Attrs = req.Grant.Attrs
	}
	if req.TTL == 0 {
		req.TTL = max(req.Grant.TTL, 6*time.Second)
	}
	h.client.Overwrite(req, done)
	return true
}

// asking returns a defect: hands, and the snapshots that see leaves the node.
func asking(see func(lease.Snapshot) lease.Snapshot,
	do func(hands, node.Request, func(node.Requested)) bool) func() simworld.Wrap {
	return func() simworld.Wrap {
		return func(_ string, p daemon.Parts) daemon.Parts {
			p.Client = hands{&eyes{Requester: p.Client, see: see}, p.Client.(*store.Client), do}
			return p
		}
	}
}

// e5 renews and updates without a condition.
func e5(h hands, req node.Request, done func(node.Requested)) bool {
	return (req.Verb == node.Renew || req.Verb == node.Update) && h.overwrite(req, done)
}

func asItIs(s lease.Snapshot) lease.Snapshot { return s }

// noTTL is the handle that e4 assumes for a reservation.
const noTTL = -1

// e4 takes a reservation for a lease that soon ends.
func e4(s lease.Snapshot) lease.Snapshot {
	for _, l := range s.Leases {
		if l.Reserved() {
			l.ID = noTTL
		}
	}
	return s
}

func e4renew(h hands, req node.Request, done func(node.Requested)) bool {
	return req.Grant.ID == noTTL && (req.Verb == node.Renew || req.Verb == node.Update) && h.overwrite(req, done)
}

// deaf is e10: it does not watch again after the first broken watch.
type deaf struct {
	daemon.Requester
	last lease.View
	over bool
}

func (d *deaf) View() lease.View {
	v := d.Requester.View()
	d.over = d.over || d.last.Synced && !v.Synced
	if d.over {
		return d.last
	}
	d.last = v
	return v
}

func e10() simworld.Wrap {
	return func(_ string, p daemon.Parts) daemon.Parts {
		p.Client = &deaf{Requester: p.Client}
		return p
	}
}

// oneLeft still sees one record of those that vanish at once: the others seem to have departed.
func oneLeft() func(lease.Snapshot) lease.Snapshot {
	var last []*lease.Lease
	return func(s lease.Snapshot) lease.Snapshot {
		if len(s.Leases) == 0 && len(last) > 0 {
			s.Leases = last[:1]
		}
		last = s.Leases
		return s
	}
}

// hiding sees only one record while the config does not parse.
func hiding() func(lease.Snapshot) lease.Snapshot {
	return func(s lease.Snapshot) lease.Snapshot {
		if _, err := config.Parse(s.Config.Data); err != nil && len(s.Leases) > 0 {
			s.Leases = s.Leases[:1]
		}
		return s
	}
}
