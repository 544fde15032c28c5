package probe

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// count returns the number of requests of a kind.
func (n *network) count(k Kind) (number int) {
	for _, r := range n.asked {
		if r.Kind == k {
			number++
		}
	}
	return number
}

// TestTriesAreCounted counts the packets of an examination whose packets are lost.
func TestTriesAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		fault                func(*network)
		echoes, large, tcp   int
		lostEchoes, lostTCPs uint64
	}{
		"well":        {func(*network) {}, 1, 1, 1, 0, 0},
		"tcp":         {func(n *network) { n.noTCP = true }, 1, 1, otherTries, 0, otherTries},
		"unreachable": {func(n *network) { n.dead[target(1).Addr] = true }, echoTries + 1, 0, 1, echoTries, 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, time.Hour, target(1))
			c.fault(n)
			n.run(time.Hour + time.Minute)
			if n.count(Echo) != c.echoes || n.count(Large) != c.large || n.count(Connect) != c.tcp {
				t.Errorf("sent %v", n.asked)
			}
			s := n.p.Summary()
			for k := range kinds {
				if s.Sent[k.String()] != uint64(n.count(k)) {
					t.Errorf("counts %d of %s, sent %d", s.Sent[k.String()], k, n.count(k))
				}
			}
			if s.Lost["echo"] != c.lostEchoes || s.Lost["tcp"] != c.lostTCPs {
				t.Errorf("lost: %v", s.Lost)
			}
			answered := uint64(0)
			for _, number := range s.RTT.Counts {
				answered += number
			}
			if answered != s.Sent["echo"]-s.Lost["echo"] {
				t.Errorf("%d round trips of %d answered echoes", answered, s.Sent["echo"]-s.Lost["echo"])
			}
			if at := n.result(target(1)).At; at.IsZero() || at.After(n.now) {
				t.Errorf("examined at %s, it is %s", at, n.now)
			}
		})
	}
}

// TestEachSizeIsTriedTwice counts the packets of the first search for a size.
func TestEachSizeIsTriedTwice(t *testing.T) {
	n := newNetwork(t, time.Hour, target(1))
	n.mtu = 700
	n.run(time.Hour)
	tries := map[int]int{}
	for _, size := range n.sizes {
		tries[size]++
	}
	for size, number := range tries {
		if want := map[bool]int{true: 1, false: otherTries}[size <= n.mtu]; number != want {
			t.Errorf("%d packets of %d bytes, want %d", number, size, want)
		}
	}
	if r := n.result(target(1)); r.Passes != n.mtu || len(tries) < 5 {
		t.Errorf("%+v after the sizes %v", r, n.sizes)
	}
}

// A packet to the address in the subnet comes from the host's own, one to the uplink from
// the address that the kernel chooses.
func TestSourceOfProbes(t *testing.T) {
	x := target(1)
	x.From = netip.MustParseAddr("10.5.9.0")
	n := newNetwork(t, time.Minute, x)
	n.run(2 * time.Minute)
	n.dead[x.Addr] = true
	n.run(2 * time.Minute)
	to := map[netip.Addr]int{}
	for _, r := range n.asked {
		to[r.To]++
		if from := (map[netip.Addr]netip.Addr{x.Addr: x.From})[r.To]; r.From != from {
			t.Errorf("%+v, want it from %s", r, from)
		}
		if r.Kind == Echo && r.Host != (r.To == x.Uplink) {
			t.Errorf("%+v: an echo beside the way of pods' packets says so, and no other", r)
		}
	}
	if to[x.Addr] == 0 || to[x.Uplink] == 0 {
		t.Errorf("probes: %v", to)
	}
}

// TestFormerTargetsAreLeftAlone removes peers while they wait for their next examination,
// and between two packets of one.
func TestFormerTargetsAreLeftAlone(t *testing.T) {
	stays := target(3)
	n := newNetwork(t, time.Minute, target(1), target(2), stays)
	n.dead[target(2).Addr] = true
	n.run(2 * time.Minute)
	silent := n.p.find(target(2).Subnet)
	for silent.queue != &n.p.examined { // until it is between two echoes that are lost
		n.run(time.Second / 10)
	}
	n.p.Watch(n.now, []Target{stays})
	n.asked = nil
	n.run(5 * time.Minute)
	for _, r := range n.asked {
		if r.To != stays.Addr {
			t.Fatalf("%+v goes to a peer that has left", r)
		}
	}
	if known := len(n.p.byAddr) + len(n.p.byUplink); known != 2 || len(n.asked) == 0 {
		t.Errorf("%d addresses are known, %d packets sent", known, len(n.asked))
	}
}

// TestHeardFromUplink has peers send their probes from either address, in another order than
// that of their subnets.
func TestHeardFromUplink(t *testing.T) {
	a, b := target(1), target(2)
	a.Uplink, b.Uplink = b.Uplink, a.Uplink
	n := newNetwork(t, time.Minute, a, b)
	n.p.Heard([]Heard{{From: a.Uplink, At: n.now}, {From: b.Addr, At: n.now.Add(time.Second)}}, true)
	if r := n.result(a); !r.Heard.Equal(n.now) {
		t.Errorf("heard from the uplink at %s", r.Heard)
	}
	if r := n.result(b); !r.Heard.Equal(n.now.Add(time.Second)) {
		t.Errorf("heard from the subnet at %s", r.Heard)
	}
}

// TestTwoTargetsWithOneSubnet watches such targets twice: the last one counts.
func TestTwoTargetsWithOneSubnet(t *testing.T) {
	a, b := target(1), target(2)
	other := a
	other.Uplink = uplink(9)
	n := newNetwork(t, time.Minute, a, other, b)
	n.p.Watch(n.now, []Target{a, other, b})
	if s := n.p.Summary(); s.By[Unknown] != 2 || n.p.find(a.Subnet).target != other {
		t.Errorf("%v, %+v", s.By, n.p.find(a.Subnet).target)
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{time.Microsecond, RTTBounds[0], RTTBounds[0] + 1, time.Hour} {
		h.Add(d)
	}
	want := fmt.Sprint([len(RTTBounds) + 1]uint64{0: 2, 1: 1, len(RTTBounds): 1})
	if got := fmt.Sprint(h.Counts); got != want || h.Sum != time.Hour+RTTBounds[0]*2+time.Microsecond+1 {
		t.Errorf("%s, sum %s; want %s", got, h.Sum, want)
	}
}

// The probes of a silent peer tell that packets are lost on the way there, if they came
// since it fell silent.
func TestSilenceOfAPeerThatIsHeard(t *testing.T) {
	n := newNetwork(t, time.Minute, target(1))
	tells := func(text string) bool { return strings.Contains(n.result(target(1)).Text(), text) }
	heard := func() bool { return tells("its own probes arrive") }
	n.p.Heard([]Heard{{From: target(1).Addr, At: n.now}}, true)
	n.run(time.Minute)
	n.dead[target(1).Addr] = true
	n.run(2 * time.Minute)
	if n.result(target(1)).Finding != Unreachable || heard() {
		t.Errorf("heard before: %s", n.result(target(1)).Text())
	}
	n.p.Heard([]Heard{{From: target(1).Uplink, At: n.now}}, true)
	if !heard() || !tells("its uplink does") {
		t.Errorf("heard since: %s", n.result(target(1)).Text())
	}
	n.dead[target(1).Uplink] = true
	n.run(2 * time.Minute)
	if tells("its uplink does") {
		t.Errorf("with a silent uplink: %s", n.result(target(1)).Text())
	}
}

// TestExamine examines one target at once, and waits only where an examination does.
func TestExamine(t *testing.T) {
	for name, c := range map[string]struct {
		answer Answer
		want   Finding
		sent   int
	}{
		"well":   {Answer{OK: true}, Well, 3},
		"silent": {Answer{}, Unreachable, echoTries + 2},
		"unable": {Answer{Unable: "no socket"}, Unknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Unix(1e9, 0)
			now, sent := begin, 0
			var waits []time.Duration
			r, unable := Examine(target(1),
				func(Request) Answer { sent++; return c.answer },
				func() time.Time { return now },
				func(d time.Duration) { now = now.Add(d); waits = append(waits, d) })
			if r.Finding != c.want || unable != c.answer.Unable || sent != c.sent {
				t.Errorf("%+v, unable %q, after %d packets", r, unable, sent)
			}
			if took := now.Sub(begin); took > echoTries*pause+time.Second {
				t.Errorf("took %s", took)
			}
			for _, d := range waits {
				if d <= 0 {
					t.Errorf("waits %s", d)
				}
			}
		})
	}
}

// Examinations of a peer are about an interval apart, and do not drift into one rhythm.
func TestIntervalHasJitter(t *testing.T) {
	n := newNetwork(t, time.Minute, target(1))
	if r := n.result(target(1)); r.Finding != Unknown || r.Address != target(1).Addr {
		t.Errorf("before the first examination: %+v", r)
	}
	n.run(time.Hour)
	var last time.Time
	short, long := time.Hour, time.Duration(0)
	for i, r := range n.asked {
		if r.Kind != Echo {
			continue
		}
		if !last.IsZero() {
			short, long = min(short, n.sent[i].Sub(last)), max(long, n.sent[i].Sub(last))
		}
		last = n.sent[i]
	}
	if short < 48*time.Second || long > 73*time.Second || long-short < 10*time.Second {
		t.Errorf("examinations are %s to %s apart", short, long)
	}
}

// TestSecondAnswerIsIgnored answers a probe twice, as a network that doubles packets does.
func TestSecondAnswerIsIgnored(t *testing.T) {
	n := newNetwork(t, time.Minute, target(1))
	n.now = n.p.Wake()
	r, _ := n.p.Due(n.now)
	for range 2 {
		n.p.Answered(n.now, Answer{ID: r.ID})
	}
	if s := n.p.Summary(); s.Lost["echo"] != 1 {
		t.Errorf("%d lost echoes, sent one", s.Lost["echo"])
	}
}

// A probe that could not be sent ends its examination: the next one comes an interval later.
func TestUnableWaitsForTheNextExamination(t *testing.T) {
	n := newNetwork(t, time.Minute, target(1))
	n.now = n.p.Wake()
	r, _ := n.p.Due(n.now)
	n.p.Answered(n.now, Answer{ID: r.ID, Unable: "permission denied"})
	if wait := n.p.Wake().Sub(n.now); wait < 48*time.Second {
		t.Errorf("the next probe is due in %s", wait)
	}
}
