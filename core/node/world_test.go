package node

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

const vxlanConfig = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`

// world is the smallest world of a node: a host that performs every op, and a store
// whose content the test writes.
type world struct {
	t     testing.TB
	n     *Node
	now   time.Time
	host  *dataplane.State
	facts driver.HostFacts
	// podBridges are those that the CNI configuration names.
	podBridges []string
	// noForwarding names for each family a link by which no packet comes in that
	// the host forwards, or anyLink.
	noForwarding [2]string
	files        map[File]string
	snap         lease.Snapshot
	down         bool // the store does not answer
	loose        bool // the store answers, and does not yet follow the changes
	rev          int64
	ttl          time.Duration // that the store renews leases by; 0: 24 h

	decorate func(*lease.View)                  // adds to what the store tells
	answer   func(Request) (lease.Grant, error) // nil: the store does as asked
	pending  *Request                           // asked for and not yet answered, when held is set
	held     bool
	applyErr func(dataplane.Op) error
	writeErr func(File) error
	firewall fakeFirewall
	shell    fakeShell
	ike      fakeIKE
	cloud    fakeCloud

	looks    []dataplane.Extent // at the host
	blind    bool               // a look at few objects shows the others as the last look did
	shown    *dataplane.State   // by the last look
	plans    [][]dataplane.Op
	requests []Request
	events   []Event
	exit     *Exit
}

const anyLink = "any"

func newWorld(t testing.TB, conf string, mod ...func(*Options)) *world {
	w := &world{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), host: dataplane.NewState(),
		firewall: fakeFirewall{chains: dataplane.NewState()}, files: map[File]string{}, rev: 100,
		cloud: fakeCloud{routes: dataplane.NewState()}}
	w.snap = lease.Snapshot{Revision: w.rev, Config: lease.Document{Data: []byte(conf), Revision: 5}}
	w.facts = driver.HostFacts{
		Links: []driver.Link{{Name: "eth0", Index: 2, MTU: 1500, Up: true, Addrs: []driver.LinkAddr{
			{Prefix: netip.MustParsePrefix("192.168.64.3/24"), Permanent: true},
			{Prefix: netip.MustParsePrefix("fd00:a::3/64"), Permanent: true},
		}}},
		Routes: []driver.Route{
			{Dst: netip.MustParsePrefix("0.0.0.0/0"),
				Hops: []driver.Hop{{Link: "eth0", Via: netip.MustParseAddr("192.168.64.1")}}},
			{Dst: netip.MustParsePrefix("192.168.64.0/24"), Hops: []driver.Hop{{Link: "eth0"}}},
			{Dst: netip.MustParsePrefix("::/0"), Hops: []driver.Hop{{Link: "eth0", Via: netip.MustParseAddr("fd00:a::1")}}},
			{Dst: netip.MustParsePrefix("fd00:a::/64"), Hops: []driver.Hop{{Link: "eth0"}}},
		},
	}
	w.start(mod...)
	return w
}

// start begins a new run of the daemon in the same surroundings.
func (w *world) start(mod ...func(*Options)) {
	o := Options{Rand: rand.New(rand.NewPCG(7, uint64(w.rev))), TrustConfig: true}
	if data, ok := w.files[StateFile]; ok {
		o.Saved = []byte(data)
	}
	for _, m := range mod {
		m(&o)
	}
	w.shell.start()
	w.ike.die() // with the daemon that started it
	w.n = New(o)
	w.exit = nil
}

// view returns the view that the store would send now.
func (w *world) view() *lease.View {
	if w.down {
		return &lease.View{Snapshot: w.n.store.view.Snapshot, Err: fmt.Errorf("connection refused")}
	}
	snap := w.snap
	snap.Leases = slices.Clone(w.snap.Leases)
	v := &lease.View{Snapshot: &snap, Synced: !w.loose}
	if w.decorate != nil {
		w.decorate(v)
	}
	return v
}

// tell hands the store's present content to the node and lets it settle.
func (w *world) tell() { w.run(Input{View: w.view()}) }

// run performs effects until the node wants none at this moment.
func (w *world) run(in Input) {
	w.t.Helper()
	w.n.Step(w.now, in)
	for range 200 {
		r := w.n.Ready()
		w.events = append(w.events, r.Events...)
		if r.Exit != nil {
			w.exit = r.Exit
			return
		}
		next, some := w.perform(r)
		if !some {
			return
		}
		w.n.Step(w.now, next)
	}
	w.t.Fatal("the node does not come to rest")
}

func (w *world) subnetFile() []byte {
	if text, ok := w.files[SubnetFile]; ok {
		return []byte(text)
	}
	return nil
}

func (w *world) perform(r Effects) (in Input, some bool) {
	host := &in.Lanes[HostLane]
	if look := r.Lanes[HostLane].Look; look != nil {
		have, err := dataplane.ParseDump(w.host.Dump())
		maps.DeleteFunc(have.Links, func(name string, _ dataplane.Link) bool {
			return !slices.Contains(look.Extent.Links, name)
		})
		w.looks = append(w.looks, look.Extent)
		if w.blind && look.Extent.Again != nil {
			have = w.few(have, look.Extent.Again)
		}
		w.shown = have
		have.Running, have.Alive = w.host.Running, maps.Clone(w.host.Alive) // which are in no dump
		facts := driver.HostFacts{Links: w.links(), Routes: slices.Clone(w.facts.Routes), Keys: w.facts.Keys,
			NextHops: w.facts.NextHops}
		facts.Routes = slices.DeleteFunc(facts.Routes, func(r driver.Route) bool { return !look.Extent.Reaches(r.Dst) })
		host.Looked, some = &Looked{Seen: driver.Observation{Facts: facts, State: have}, SubnetFile: w.subnetFile(),
			PodBridges: w.podBridges, Err: err}, true
	}
	if r.Lanes[HostLane].Plan != nil {
		w.plans = append(w.plans, r.Lanes[HostLane].Plan)
		host.Applied, some = &Applied{Errs: w.apply(r.Lanes[HostLane].Plan)}, true
	}
	if r.Writes != nil {
		in.Wrote, some = &Wrote{Errs: make([]error, len(r.Writes))}, true
		for i, f := range r.Writes {
			if w.writeErr != nil {
				in.Wrote.Errs[i] = w.writeErr(f.File)
				if in.Wrote.Errs[i] != nil {
					continue
				}
			}
			if f.Remove {
				delete(w.files, f.File)
				continue
			}
			data, err := f.Content()
			if err != nil {
				panic(err)
			}
			w.files[f.File] = string(data)
		}
	}
	some = w.firewall.perform(r.Lanes[FirewallLane], &in.Lanes[FirewallLane]) || some
	some = w.shell.perform(r.Lanes[CommandsLane], &in.Lanes[CommandsLane]) || some
	some = w.ike.perform(r.Lanes[IKELane], &in.Lanes[IKELane]) || some
	some = w.cloud.perform(r.Lanes[CloudLane], &in.Lanes[CloudLane]) || some
	if r.Request != nil {
		w.requests = append(w.requests, *r.Request)
		w.pending = r.Request
		if !w.held {
			in.Requested, some = w.serve(), true
			in.View = w.view()
		}
	}
	return in, some
}

// few returns the last look with the present objects under the keys of some.
func (w *world) few(have *dataplane.State, again []dataplane.Object) *dataplane.State {
	seen := w.shown.Clone()
	for _, o := range again {
		switch o := o.(type) {
		case dataplane.Neigh:
			seen.Neighs.Delete(o.NeighKey)
		case dataplane.FDBEntry:
			seen.FDB.Delete(o.FDBKey)
		case dataplane.Route:
			seen.Routes.Delete(o.RouteKey)
		case dataplane.NextHop:
			seen.NextHops.Delete(o.ID)
		}
		if now, there := have.Namesake(o); there {
			seen.Put(now)
		}
	}
	return seen
}

// links returns the facts' links as noForwarding has them.
func (w *world) links() []driver.Link {
	links := slices.Clone(w.facts.Links)
	for i, l := range links {
		for f, on := range w.noForwarding {
			links[i].NoForwarding[f] = on == anyLink || on == l.Name
		}
	}
	return links
}

func (w *world) apply(ops []dataplane.Op) []error {
	errs := make([]error, len(ops))
	for i, op := range ops {
		if w.applyErr != nil {
			errs[i] = w.applyErr(op)
			if errs[i] != nil {
				continue
			}
		}
		if l, isLink := op.Object.(dataplane.Link); isLink && l.Was != "" {
			w.host = w.host.Renamed(l.Was, l.Name)
			continue
		}
		if op.Verb != dataplane.Delete {
			w.host.Put(op.Object)
			continue
		}
		switch o := op.Object.(type) {
		case dataplane.Link:
			w.unplug(o.Name)
		case dataplane.Addr:
			delete(w.host.Addrs, o)
		case dataplane.Route:
			w.host.Routes.Delete(o.RouteKey)
		case dataplane.Neigh:
			w.host.Neighs.Delete(o.NeighKey)
		case dataplane.FDBEntry:
			w.host.FDB.Delete(o.FDBKey)
		case dataplane.NextHop:
			w.host.NextHops.Delete(o.ID)
			w.host.Routes.DeleteFunc(func(_ dataplane.RouteKey, r dataplane.Route) bool { return r.NextHop == o.ID })
		}
	}
	return errs
}

// unplug removes a link and, as the kernel does, all that is on it.
func (w *world) unplug(name string) {
	delete(w.host.Links, name)
	maps.DeleteFunc(w.host.Addrs, func(a, _ dataplane.Addr) bool { return a.Link == name })
	w.host.Routes.DeleteFunc(func(_ dataplane.RouteKey, r dataplane.Route) bool { return r.Link == name })
	w.host.Neighs.DeleteFunc(func(k dataplane.NeighKey, _ dataplane.Neigh) bool { return k.Link == name })
	w.host.FDB.DeleteFunc(func(k dataplane.FDBKey, _ dataplane.FDBEntry) bool { return k.Link == name })
	maps.DeleteFunc(w.host.Sysctls, func(_ string, c dataplane.Sysctl) bool { return c.Link == name })
}

// serve answers the pending request as a store would.
func (w *world) serve() *Requested {
	req := *w.pending
	w.pending = nil
	done := &Requested{}
	if w.answer != nil {
		done.Grant, done.Err = w.answer(req)
		if done.Grant.Key.IsValid() || done.Err != nil {
			return done
		}
	}
	done.Grant, done.Err = w.store(req)
	if req.Verb != Update {
		done.Grant.Expires = w.now.Add(done.Grant.TTL)
	}
	return done
}

func (w *world) store(req Request) (lease.Grant, error) {
	if w.down {
		return lease.Grant{}, fmt.Errorf("connection refused")
	}
	i := slices.IndexFunc(w.snap.Leases, func(l *lease.Lease) bool { return l.Key == keyOf(req) })
	if req.Verb == Create {
		if i >= 0 {
			return lease.Grant{}, &lease.ConflictError{Key: req.Key, Revision: w.rev}
		}
		l := w.put(lease.Lease{Key: req.Key, Attrs: req.Attrs, ID: 1000 + w.rev})
		return lease.Grant{Lease: l, TTL: req.TTL}, nil
	}
	if i < 0 {
		return lease.Grant{}, lease.ErrLost
	}
	rec := *w.snap.Leases[i]
	if req.Verb == Renew {
		return lease.Grant{Lease: req.Grant.Lease, TTL: cmp.Or(w.ttl, 24*time.Hour)}, nil
	}
	if rec.ModRevision != req.Grant.ModRevision {
		return lease.Grant{}, &lease.ConflictError{Key: rec.Key, Revision: w.rev}
	}
	if req.Verb == Release {
		w.remove(rec.Key)
		return lease.Grant{}, nil
	}
	rec.Attrs = req.Attrs
	if req.Verb == Move {
		if _, taken := findLease(&w.snap, req.Key); taken {
			return lease.Grant{}, &lease.ConflictError{Key: req.Key, Revision: w.rev}
		}
		w.remove(rec.Key)
		rec.Key, rec.CreateRevision = req.Key, 0
	}
	rec = w.put(rec)
	g := lease.Grant{Lease: rec, TTL: req.Grant.TTL, Expires: req.Grant.Expires}
	if !rec.Reserved() && g.TTL != req.TTL {
		g.TTL, g.Expires = req.TTL, w.now.Add(req.TTL)
	}
	return g, nil
}

// put writes a record, as any program may.
func (w *world) put(l lease.Lease) lease.Lease {
	w.rev++
	w.snap.Revision = w.rev
	l.ModRevision = w.rev
	if l.CreateRevision == 0 {
		l.CreateRevision = w.rev
	}
	i, found := slices.BinarySearchFunc(w.snap.Leases, &l,
		func(a, b *lease.Lease) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	leases := slices.Clone(w.snap.Leases)
	if found {
		l.CreateRevision = min(l.CreateRevision, leases[i].CreateRevision)
		leases[i] = &l
	} else {
		leases = slices.Insert(leases, i, &l)
	}
	w.snap.Leases = leases
	return l
}

func (w *world) remove(key lease.Key) {
	w.rev++
	w.snap.Revision = w.rev
	w.snap.Leases = slices.DeleteFunc(slices.Clone(w.snap.Leases), func(l *lease.Lease) bool { return l.Key == key })
}

// pass lets time go by, stepping whenever the node asked to be.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	end := w.now.Add(d)
	for range 100_000 {
		at := w.n.wake()
		if at.IsZero() || at.After(end) {
			w.now = end
			w.run(Input{})
			return
		}
		w.now = at
		w.run(Input{})
	}
	w.t.Fatal("the node wakes too often")
}

func (w *world) status() Status { return w.n.Status() }

func (w *world) wantReady() {
	w.t.Helper()
	if s := w.status(); !s.Ready {
		w.t.Fatalf("not ready: %s\n%s", strings.Join(s.Reasons, "; "), w.log())
	}
}

func (w *world) log() string {
	var b strings.Builder
	for _, e := range w.events {
		fmt.Fprintf(&b, "%s: %s\n", e.Kind, e.Text)
	}
	return b.String()
}

func (w *world) count(kind string) int {
	c := 0
	for _, e := range w.events {
		if e.Kind == kind {
			c++
		}
	}
	return c
}

func (w *world) own() lease.Lease {
	w.t.Helper()
	for _, l := range w.snap.Leases {
		if l.Attrs.PublicIP == netip.MustParseAddr("192.168.64.3") || l.Attrs.PublicIPv6 == netip.MustParseAddr("fd00:a::3") {
			return *l
		}
	}
	w.t.Fatalf("no own record among %v", w.snap.Leases)
	return lease.Lease{}
}

func mustKey(s string) lease.Key {
	k, err := lease.ParseKey(s)
	if err != nil {
		panic(err)
	}
	return k
}

// vxlanPeer is a record with the n-th address of the segment.
func vxlanPeer(key string, n byte) lease.Lease {
	return lease.Lease{Key: mustKey(key), ID: int64(n), Attrs: lease.Attrs{
		PublicIP: netip.AddrFrom4([4]byte{192, 168, 64, n}), BackendType: "vxlan",
		BackendData: json.RawMessage(fmt.Sprintf(`{"VNI":1,"VtepMAC":"c6:00:00:00:00:%02x"}`, n)),
	}}
}

// vxlanOf returns the parameters of a vxlan device.
func vxlanOf(l dataplane.Link) dataplane.VXLAN { return l.Params.(dataplane.VXLAN) }

// hint returns the input of a hint in a lane.
func hint(id LaneID) (in Input) {
	in.Lanes[id].Hint = true
	return in
}

// looked returns the input of a look that has ended.
func looked(id LaneID, l Looked) (in Input) {
	in.Lanes[id].Looked = &l
	return in
}

// every accepts every object of a table.
func every[K, V any](K, V) bool { return true }
