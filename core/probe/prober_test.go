package probe

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"
)

// network answers the probes of a Prober in virtual time, as its fields say.
type network struct {
	t       *testing.T
	p       *Prober
	now     time.Time
	pending []pending
	sent    []time.Time
	asked   []Request
	sizes   []int // of large packets
	changes []Change

	dead    map[netip.Addr]bool // addresses without an answer
	mtu     int                 // larger packets are lost; 0: none is
	noTCP   bool
	noICMP  bool
	loseOne func(Request) bool // nil: no further packet is lost
}

type pending struct {
	at time.Time
	a  Answer
}

func newNetwork(t *testing.T, interval time.Duration, targets ...Target) *network {
	n := &network{t: t, now: time.Unix(1e9, 0), dead: map[netip.Addr]bool{}}
	n.p = New(interval, rand.New(rand.NewPCG(1, 2)))
	n.p.Watch(n.now, targets)
	return n
}

// run lets time pass.
func (n *network) run(length time.Duration) {
	end := n.now.Add(length)
	for {
		at := end
		if w := n.p.Wake(); !w.IsZero() && w.Before(at) {
			at = w
		}
		for _, e := range n.pending {
			if e.at.Before(at) {
				at = e.at
			}
		}
		if at.After(n.now) {
			n.now = at
		}
		rest := n.pending
		n.pending = nil
		for _, e := range rest {
			if e.at.After(n.now) {
				n.pending = append(n.pending, e)
				continue
			}
			change, changed := n.p.Answered(n.now, e.a)
			if changed {
				n.changes = append(n.changes, change)
			}
		}
		for {
			r, ok := n.p.Due(n.now)
			if !ok {
				break
			}
			n.send(r)
		}
		if !n.now.Before(end) {
			return
		}
	}
}

func (n *network) send(r Request) {
	n.sent = append(n.sent, n.now)
	n.asked = append(n.asked, r)
	if r.Kind == Large {
		n.sizes = append(n.sizes, r.Size)
	}
	lost := n.dead[r.To] || n.mtu > 0 && r.Size > n.mtu || n.noTCP && r.Kind == Connect || n.noICMP && r.Kind != Connect
	if lost || n.loseOne != nil && n.loseOne(r) {
		n.pending = append(n.pending, pending{n.now.Add(Timeout), Answer{ID: r.ID}})
		return
	}
	const rtt = time.Millisecond
	n.pending = append(n.pending, pending{n.now.Add(rtt), Answer{ID: r.ID, OK: true, RTT: rtt}})
}

// result returns what is known about a target.
func (n *network) result(t Target) Result {
	n.t.Helper()
	r, ok := n.p.Result(t.Subnet)
	if !ok {
		n.t.Fatalf("nothing is known about %s", t.Subnet)
	}
	return r
}

// uplink returns the address of the i-th peer in the underlay.
func uplink(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 168, byte(i / 256), byte(i)}) }

// target returns the i-th peer of a backend with a device.
func target(i int) Target {
	base := netip.AddrFrom4([4]byte{10, 5, byte(i), 0})
	if i > 255 {
		base = netip.AddrFrom4([4]byte{10, byte(6 + i/256), byte(i), 0})
	}
	return Target{Subnet: netip.PrefixFrom(base, 24), Addr: base, Uplink: uplink(i), MTU: 1450}
}

// direct returns a peer without a device.
func direct() Target {
	t := target(1)
	t.Addr, t.Bridge = t.Addr.Next(), true
	return t
}

func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		fault  func(*network)
		want   Finding
		passes int
	}{
		"well":        {func(*network) {}, Well, 1450},
		"unreachable": {func(n *network) { n.dead[target(1).Addr] = true }, Unreachable, 0},
		"mtu":         {func(n *network) { n.mtu = 1413 }, SizeLost, 1413},
		"small mtu":   {func(n *network) { n.mtu = 500 }, SizeLost, 500},
		"tiny mtu":    {func(n *network) { n.mtu = SmallSize }, SizeLost, SmallSize},
		"tcp":         {func(n *network) { n.noTCP = true }, TCPLost, 1450},
		"icmp":        {func(n *network) { n.noICMP = true }, ICMPLost, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, time.Minute, target(1))
			c.fault(n)
			n.run(2 * time.Minute)
			r := n.result(target(1))
			if r.UplinkAnswers != (name == "unreachable") {
				t.Errorf("uplink answers: %t", r.UplinkAnswers)
			}
			if r.Finding != c.want || r.Passes != c.passes {
				t.Errorf("%+v, want %q and %d bytes", r, c.want, c.passes)
			}
			s := n.p.Summary()
			if s.By[c.want] != 1 || len(s.By) != 1 || (len(s.Faults) == 1) != (c.want != Well) {
				t.Errorf("summary: %+v", s)
			}
		})
	}
}

// TestFindingChanges lets a peer fail and recover.
func TestFindingChanges(t *testing.T) {
	n := newNetwork(t, time.Minute, target(1))
	n.run(2 * time.Minute)
	failed := n.now
	n.dead[target(1).Addr] = true
	n.run(2 * time.Minute)
	r := n.result(target(1))
	if r.Finding != Unreachable || r.Since.Before(failed) || r.Since.After(failed.Add(72*time.Second)) || r.Lost < 3 {
		t.Errorf("%+v, failed at %s", r, failed)
	}
	since := r.Since
	n.run(5 * time.Minute)
	if r := n.result(target(1)); !r.Since.Equal(since) {
		t.Errorf("unreachable since %s became %s", since, r.Since)
	}
	n.dead = map[netip.Addr]bool{}
	n.run(2 * time.Minute)
	if r := n.result(target(1)); r.Finding != Well || r.RTT != time.Millisecond || !r.Since.After(since) {
		t.Errorf("recovered: %+v", r)
	}
	n.run(40 * time.Minute)
	if r := n.result(target(1)); r.Sent != window || r.Lost != 0 {
		t.Errorf("the window still holds a loss: %+v", r)
	}
}

// TestSomeLossIsNoFault loses each second packet.
func TestSomeLossIsNoFault(t *testing.T) {
	n := newNetwork(t, time.Minute, target(1))
	i := 0
	n.loseOne = func(Request) bool { i++; return i%2 == 0 }
	n.run(time.Hour)
	if r := n.result(target(1)); r.Finding != Well || r.Lost == 0 || r.Passes != 1450 {
		t.Errorf("%+v", r)
	}
}

// TestKnownSizeIsTriedFirst keeps the second search for the size that passes short.
func TestKnownSizeIsTriedFirst(t *testing.T) {
	n := newNetwork(t, time.Minute, target(1))
	n.mtu = 1400
	n.run(2 * time.Minute)
	n.sizes = nil
	n.run(48 * time.Second)
	if got := fmt.Sprint(n.sizes); got != "[1450 1450 1400 1401 1401]" {
		t.Errorf("tried %s", got)
	}
}

func TestBridgeMayNotExist(t *testing.T) {
	n := newNetwork(t, time.Minute, direct())
	n.dead[direct().Addr] = true
	n.run(3 * time.Minute)
	if r := n.result(direct()); r.Finding != Well || r.Address != direct().Uplink || r.Lost != 0 {
		t.Errorf("without a bridge: %+v", r)
	}
	n.dead = map[netip.Addr]bool{}
	n.run(2 * time.Minute)
	if r := n.result(direct()); r.Finding != Well || r.Address != direct().Addr {
		t.Errorf("with a bridge: %+v", r)
	}
	n.dead[direct().Addr] = true
	n.run(2 * time.Minute)
	if r := n.result(direct()); r.Finding != Unreachable {
		t.Errorf("the bridge has answered before, and does not any more: %+v", r)
	}
}

// TestBudget watches so many peers that an interval is too short for all of them.
func TestBudget(t *testing.T) {
	const peers = 2000
	var targets []Target
	for i := range peers {
		targets = append(targets, target(i+1))
	}
	n := newNetwork(t, time.Minute, targets...)
	for i := range peers / 10 {
		n.dead[target(i+1).Addr] = true
	}
	n.run(10 * time.Minute)
	for i := range n.sent {
		if i >= Rate && n.sent[i].Sub(n.sent[i-Rate]) < time.Second {
			t.Fatalf("more than %d probes within a second: %s to %s", Rate, n.sent[i-Rate], n.sent[i])
		}
	}
	if got, want := len(n.sent), 9*60*Rate; got < want {
		t.Errorf("sent %d probes, the budget allows more than %d", got, want)
	}
	if s := n.p.Summary(); s.By[Well] != peers*9/10 || s.By[Unreachable] != peers/10 {
		t.Errorf("after 10 minutes: %v", s.By)
	}
}

// TestRoundsAreFew has more to send than the budget allows: the process wakes for each round
// of probes, which costs more than the probes.
func TestRoundsAreFew(t *testing.T) {
	var targets []Target
	for i := range 2000 {
		targets = append(targets, target(i+1))
	}
	n := newNetwork(t, time.Minute, targets...)
	n.run(2 * time.Minute)
	n.sent = nil
	n.run(time.Minute)
	inRound := map[time.Time]int{}
	for _, at := range n.sent {
		inRound[at]++
	}
	if len(n.sent) < 59*Rate || len(inRound) > 60*5+1 {
		t.Errorf("%d probes in %d rounds", len(n.sent), len(inRound))
	}
	for at, number := range inRound {
		if number > perRound {
			t.Errorf("%d probes at %s", number, at)
		}
	}
}

// TestProbesAreSpread compares the times of the probes of a few peers.
func TestProbesAreSpread(t *testing.T) {
	var targets []Target
	for i := range 60 {
		targets = append(targets, target(i+1))
	}
	n := newNetwork(t, time.Minute, targets...)
	began := n.now
	n.run(10 * time.Minute)
	perTen := map[int]int{}
	for _, at := range n.sent {
		perTen[int(at.Sub(began)/(10*time.Second))]++
	}
	for ten, number := range perTen {
		if number > 90 { // 30 on average
			t.Errorf("%d probes in the ten seconds from %d s on", number, ten*10)
		}
	}
}

// TestNewPeersAreLeftAlone adds a peer to one that is known, and then changes its MTU: only a new
// peer has a grace, and after it the first examination comes within an interval.
func TestNewPeersAreLeftAlone(t *testing.T) {
	const interval = 2 * time.Second
	a, b := target(1), target(2)
	n := newNetwork(t, interval, a)
	n.run(Grace)
	if len(n.sent) > 0 {
		t.Fatalf("%+v is asked within its grace", n.asked)
	}
	n.run(interval)
	if len(n.sent) == 0 {
		t.Fatal("no probe after the grace and an interval")
	}
	n.asked = nil
	n.p.Watch(n.now, []Target{a, b})
	n.run(Grace)
	if len(n.asked) == 0 || slices.ContainsFunc(n.asked, func(r Request) bool { return r.To == b.Addr }) {
		t.Errorf("within the grace of %s: %+v", b.Addr, n.asked)
	}
	n.run(interval)
	n.asked = nil
	b.MTU = 1400
	n.p.Watch(n.now, []Target{a, b})
	n.run(interval)
	if !slices.ContainsFunc(n.asked, func(r Request) bool { return r.To == b.Addr }) {
		t.Errorf("%s is not asked after a change of its MTU: %+v", b.Addr, n.asked)
	}
}

func TestWatchFollowsTargets(t *testing.T) {
	a, b := target(1), target(2)
	n := newNetwork(t, time.Minute, a, b)
	n.dead[b.Addr] = true
	n.run(2 * time.Minute)
	n.p.Watch(n.now, []Target{a})
	if _, known := n.p.Result(b.Subnet); known || n.p.Summary().By[Unreachable] != 0 || len(n.p.Summary().Faults) != 0 {
		t.Errorf("a peer that has left is still known: %+v", n.p.Summary())
	}
	a.MTU = 1400
	rtt := n.result(a).RTT
	n.p.Watch(n.now, []Target{a})
	if r := n.result(a); r.Finding != Unknown || r.RTT != rtt || r.MTU != 1400 {
		t.Errorf("after a change of the MTU: %+v", r)
	}
	n.run(2 * time.Minute)
	if r := n.result(a); r.Finding != Well || r.Passes != 1400 {
		t.Errorf("examined anew: %+v", r)
	}
}

// TestRecoveryIsReportedAfterChangeOfTarget changes the MTU of the pods in the middle of a
// fault, which is over at the next examination.
func TestRecoveryIsReportedAfterChangeOfTarget(t *testing.T) {
	x := target(1)
	for want, fault := range map[Finding]func(*network){
		SizeLost:    func(n *network) { n.mtu = 1400 },
		TCPLost:     func(n *network) { n.noTCP = true },
		ICMPLost:    func(n *network) { n.noICMP = true },
		Unreachable: func(n *network) { n.dead[x.Addr] = true },
	} {
		n := newNetwork(t, time.Minute, x)
		fault(n)
		n.run(3 * time.Minute)
		if r := n.result(x); r.Finding != want {
			t.Fatalf("%+v, want %s", r, want)
		}
		*n = network{t: t, p: n.p, now: n.now, pending: n.pending, dead: map[netip.Addr]bool{}}
		smaller := x
		smaller.MTU = 1400
		n.p.Watch(n.now, []Target{smaller})
		if s := n.p.Summary(); len(s.By) != 1 || s.By[n.result(x).Finding] != 1 {
			t.Errorf("%s: %+v of %+v", want, s, n.result(x))
		}
		n.run(3 * time.Minute)
		if len(n.changes) != 1 || n.changes[0].Before != want || n.changes[0].Result.Finding != Well {
			t.Errorf("%s: changes %+v", want, n.changes)
		}
		if s := n.p.Summary(); s.By[Well] != 1 || len(s.By) != 1 || len(s.Faults) != 0 {
			t.Errorf("%s: %+v", want, s)
		}
	}
}

// TestSilent has two peers fall silent one after the other, one of them while the list
// of targets changes.
func TestSilent(t *testing.T) {
	n := newNetwork(t, time.Minute, target(1), target(2), target(3))
	n.run(2 * time.Minute)
	begin := n.now
	n.dead[target(2).Addr] = true
	n.run(10 * time.Minute)
	n.dead[target(1).Addr] = true
	n.run(5 * time.Minute)
	other := target(2)
	other.MTU = 1400
	n.p.Watch(n.now, []Target{target(1), other, target(3)})
	n.run(5 * time.Minute)
	first := target(2).Subnet
	if s := n.p.Silent(begin.Add(2 * time.Minute)); s.Peers != 1 || s.First != first || s.Result.Finding != Unreachable {
		t.Errorf("silent for long: %+v", s)
	}
	if s := n.p.Silent(n.now); s.Peers != 2 || s.First != target(1).Subnet {
		t.Errorf("silent: %+v", s)
	}
	clear(n.dead)
	n.run(3 * time.Minute)
	if s := n.p.Silent(n.now); s.Peers != 0 {
		t.Errorf("silent: %+v", s)
	}
}

// TestAnswersOfOthersAreIgnored passes answers that no request asked for.
func TestAnswersOfOthersAreIgnored(t *testing.T) {
	n := newNetwork(t, time.Minute, target(1))
	n.p.Answered(n.now, Answer{ID: 99, OK: true, RTT: time.Second})
	n.p.Heard([]Heard{{From: netip.MustParseAddr("10.99.0.0"), At: n.now}}, true)
	n.run(2 * time.Minute)
	if r := n.result(target(1)); r.Finding != Well || !r.Heard.IsZero() {
		t.Errorf("%+v", r)
	}
	n.p.Heard([]Heard{{From: target(1).Addr, At: n.now}}, true)
	if r := n.result(target(1)); !r.Heard.Equal(n.now) {
		t.Errorf("heard at %s", r.Heard)
	}
}

func TestUnable(t *testing.T) {
	n := newNetwork(t, time.Minute, target(1))
	n.run(time.Minute)
	before := n.result(target(1))
	for range 3 {
		var r Request
		for ok := false; !ok; r, ok = n.p.Due(n.now) {
			n.now = n.p.Wake()
		}
		n.p.Answered(n.now, Answer{ID: r.ID, Unable: "permission denied"})
	}
	after := n.result(target(1))
	if after.Finding != before.Finding || after.Lost != before.Lost || n.p.Summary().Unable == "" {
		t.Errorf("before: %+v, after: %+v, %+v", before, after, n.p.Summary())
	}
}

// BenchmarkMemory measures what a prober of 5,000 peers keeps.
func BenchmarkMemory(b *testing.B) {
	var targets []Target
	for i := range 5000 {
		targets = append(targets, target(i+1))
	}
	var kept *Prober
	var before, after runtime.MemStats
	for b.Loop() {
		kept = nil
		runtime.GC()
		runtime.ReadMemStats(&before)
		kept = New(time.Minute, rand.New(rand.NewPCG(1, 2)))
		kept.Watch(time.Unix(1e9, 0), targets)
		runtime.GC()
		runtime.ReadMemStats(&after)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
	runtime.KeepAlive(kept)
}
