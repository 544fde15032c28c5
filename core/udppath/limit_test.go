package udppath

import (
	"testing"
	"time"
)

// TestErrorLimit sends packets that need an error and counts the errors.
func TestErrorLimit(t *testing.T) {
	table, p := tableA(t), &Path{}
	answers := func(n int) (count int) {
		for range n {
			if v := p.Send(table, datagram("10.5.1.7", "10.5.9.9"), Vnet{}); v.Action == Deliver {
				count++
			}
		}
		return count
	}
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		what string
		wait time.Duration // -1: the path is not told the time
		want int
	}{
		{"before the first tick", -1, 0},
		{"a burst", 0, 50},
		{"at once", 0, 0},
		{"half a millisecond later", 500 * time.Microsecond, 0},
		{"the other half", 500 * time.Microsecond, 1},
		{"two and a half", 2500 * time.Microsecond, 2},
		{"the other half again", 500 * time.Microsecond, 1},
		{"the clock goes back", -time.Second, 0},
		{"and is where it was", time.Second, 0},
		{"a day", 24 * time.Hour, 50},
	} {
		if c.wait != -1 {
			now = now.Add(c.wait)
			p.Tick(now)
		}
		if got := answers(60); got != c.want {
			t.Errorf("%s: %d answers, want %d", c.what, got, c.want)
		}
	}
	if got := p.Counters()[NoRoute]; got != 600 {
		t.Errorf("%d packets were counted, want all 600", got)
	}
}

func TestReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range Reasons {
		name := Reason(r).String()
		if name == "unknown" || seen[name] {
			t.Errorf("reason %d is called %s", r, name)
		}
		seen[name] = true
	}
	if got := Reason(Reasons).String(); got != "unknown" {
		t.Errorf("no reason is called %s", got)
	}
}

func TestCountersAdd(t *testing.T) {
	a, b := Counters{Passed: 1, TTL: 2}, Counters{TTL: 3, Spoofed: 4}
	a.Add(b)
	if a != (Counters{Passed: 1, TTL: 5, Spoofed: 4}) {
		t.Errorf("got %v", a)
	}
}

// Every reason has a number from the beginning, so that a series of it begins at zero.
func TestDropsBeginAtZero(t *testing.T) {
	drops := Counters{Passed: 9, TTL: 2}.Drops()
	if len(drops) != Reasons-1 || drops["ttl"] != 2 {
		t.Errorf("%v", drops)
	}
	if n, is := drops["spoofed"]; !is || n != 0 {
		t.Errorf("a reason that has not occurred: %d, %t", n, is)
	}
	if _, is := drops["passed"]; is {
		t.Error("a packet that passed is dropped")
	}
}
