package agent

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// fakeNode records its inputs and returns the effects of react.
type fakeNode struct {
	react func(turn int, in node.Input) node.Effects

	mu     sync.Mutex
	inputs []node.Input
	at     []time.Time
	ready  node.Effects
	status node.Status
}

func (f *fakeNode) Step(now time.Time, in node.Input) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inputs, f.at = append(f.inputs, in), append(f.at, now)
	f.ready = node.Effects{}
	if f.react != nil {
		f.ready = f.react(len(f.inputs)-1, in)
	}
}

func (f *fakeNode) Ready() node.Effects { return f.ready }

func (f *fakeNode) Pulse() node.Pulse { return pulse(f.status) }

func (f *fakeNode) Status() node.Status { return f.status }

func (f *fakeNode) Peers() []node.Peer { return []node.Peer{{Subnet: subnet, State: node.PeerServed}} }

func (f *fakeNode) Differences() []node.Difference { return []node.Difference{{Lane: "host"}} }

func (f *fakeNode) Tables() []node.Tables {
	return []node.Tables{{Lane: "host", Want: dataplane.NewState()}}
}

// turns returns the inputs so far.
func (f *fakeNode) turns() []node.Input {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inputs
}

// times returns the times of the turns so far.
func (f *fakeNode) times() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

// fakeHost is a host lane whose calls run the given functions, if any.
type fakeHost struct {
	look  func(context.Context) error
	apply func(context.Context, []dataplane.Op) []error
	hints chan struct{}
}

func (f *fakeHost) Look(ctx context.Context, e dataplane.Extent) (driver.Observation, error) {
	facts := driver.HostFacts{Links: []driver.Link{{Name: "eth0"}}}
	seen := driver.Observation{State: dataplane.NewState(), Facts: facts}
	for _, name := range e.Links {
		seen.State.AddLink(dataplane.Link{Name: name})
	}
	if f.look != nil {
		return seen, f.look(ctx)
	}
	return seen, nil
}

func (f *fakeHost) Apply(ctx context.Context, ops []dataplane.Op) []error {
	if f.apply != nil {
		return f.apply(ctx, ops)
	}
	return make([]error, len(ops))
}

func (f *fakeHost) Hints() <-chan struct{} { return f.hints }

// fakeFirewall is a firewall lane whose calls run the given functions, if any.
type fakeFirewall struct {
	look  func(context.Context) error
	apply func(context.Context, []dataplane.Op) []error
	hints chan struct{}
}

func (f *fakeFirewall) Look(ctx context.Context, _ dataplane.Extent) (driver.Observation, error) {
	seen := driver.Observation{State: dataplane.NewState(), Facts: driver.FirewallFacts{}}
	seen.State.AddChain(dataplane.Chain{Other: "seen"})
	if f.look != nil {
		return seen, f.look(ctx)
	}
	return seen, nil
}

func (f *fakeFirewall) Apply(ctx context.Context, ops []dataplane.Op) []error {
	if f.apply != nil {
		return f.apply(ctx, ops)
	}
	return make([]error, len(ops))
}

func (f *fakeFirewall) Hints() <-chan struct{} { return f.hints }

// fakeStore answers each call with a grant whose backend type spells out the call.
type fakeStore struct {
	call    func(context.Context) error
	changed chan struct{}

	mu   sync.Mutex
	view lease.View
}

func (f *fakeStore) View() lease.View {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view
}

func (f *fakeStore) Changed() <-chan struct{} { return f.changed }

func (f *fakeStore) Create(ctx context.Context, k lease.Key, a lease.Attrs, ttl time.Duration) (lease.Grant, error) {
	return f.answer(ctx, fmt.Sprintf("create %s %s %s", k, a.BackendType, ttl))
}

func (f *fakeStore) Renew(ctx context.Context, g lease.Grant) (lease.Grant, error) {
	return f.answer(ctx, fmt.Sprintf("renew %s", g.Key))
}

func (f *fakeStore) Update(ctx context.Context, g lease.Grant, a lease.Attrs, ttl time.Duration) (lease.Grant, error) {
	return f.answer(ctx, fmt.Sprintf("update %s %s %s", g.Key, a.BackendType, ttl))
}

func (f *fakeStore) Move(
	ctx context.Context, g lease.Grant, to lease.Key, a lease.Attrs, ttl time.Duration,
) (lease.Grant, error) {
	return f.answer(ctx, fmt.Sprintf("move %s to %s %s %s", g.Key, to, a.BackendType, ttl))
}

func (f *fakeStore) Release(ctx context.Context, g lease.Grant) error {
	_, err := f.answer(ctx, "release")
	return err
}

func (f *fakeStore) answer(ctx context.Context, call string) (lease.Grant, error) {
	var err error
	if f.call != nil {
		err = f.call(ctx)
	}
	return lease.Grant{Lease: lease.Lease{Attrs: lease.Attrs{BackendType: call}}}, err
}

// rig is an agent in a bubble of virtual time. The bubble fails the test if a
// goroutine outlives it.
type rig struct {
	t        *testing.T
	node     *fakeNode
	host     *fakeHost
	firewall *fakeFirewall
	store    *fakeStore
	opts     Options
	events   []node.Event

	cancel context.CancelFunc
	exit   chan node.Exit
}

// inBubble runs f with a rig that is not yet started.
func inBubble(t *testing.T, f func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{
			t: t, node: &fakeNode{},
			host:     &fakeHost{hints: make(chan struct{}, 1)},
			firewall: &fakeFirewall{hints: make(chan struct{}, 1)},
			store:    &fakeStore{changed: make(chan struct{}, 1)},
			exit:     make(chan node.Exit, 1),
		}
		dir := t.TempDir()
		r.opts = Options{
			Lanes:      [node.LaneCount]driver.Lane{node.HostLane: r.host, node.FirewallLane: r.firewall},
			Store:      r.store,
			Health:     &Health{},
			SubnetFile: dir + "/flannel/subnet.env", StateFile: dir + "/flannel/subnet.env.state",
			Log: func(e node.Event) { r.events = append(r.events, e) },
		}
		f(r)
	})
}

func (r *rig) start() {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.cancel = cancel
	go func() { r.exit <- run(ctx, r.opts, r.node) }()
	synctest.Wait()
}

// pass advances virtual time and waits for the effects of that.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// stop ends the run. It returns the exit and the time that the end took.
func (r *rig) stop() (node.Exit, time.Duration) {
	began := time.Now()
	r.cancel()
	exit := <-r.exit
	return exit, time.Since(began)
}

// onTurn answers one turn with ready, and the others with nothing.
func onTurn(turn int, ready node.Effects) func(int, node.Input) node.Effects {
	return func(i int, _ node.Input) node.Effects {
		if i == turn {
			return ready
		}
		return node.Effects{}
	}
}

// onHost returns the effects of the host's lane.
func onHost(e node.LaneEffects) (lanes [node.LaneCount]node.LaneEffects) {
	lanes[node.HostLane] = e
	return lanes
}

// onFirewall returns the effects of the firewall's lane.
func onFirewall(e node.LaneEffects) (lanes [node.LaneCount]node.LaneEffects) {
	lanes[node.FirewallLane] = e
	return lanes
}

// hostHint returns the input of a hint in the host's lane.
func hostHint() (in node.Input) {
	in.Lanes[node.HostLane].Hint = true
	return in
}

// looked returns the input of a look at the fake host.
func looked(state *dataplane.State) (lanes [node.LaneCount]node.LaneInput) {
	facts := driver.HostFacts{Links: []driver.Link{{Name: "eth0"}}}
	lanes[node.HostLane].Looked = &node.Looked{Seen: driver.Observation{State: state, Facts: facts}}
	return lanes
}

// pulse returns the part of a status that the loop reports each turn.
func pulse(s node.Status) node.Pulse {
	return node.Pulse{
		Phase: s.Phase, Reasons: s.Reasons, Subnet: s.Subnet, Programmed: s.Programmed,
		FailingFor: s.FailingFor, Expires: s.Expires, RenewBy: s.RenewBy,
	}
}
