package kernel

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/probe"
)

// probed sends a probe from the first host of a lab and waits for its answer.
func (l *lab) probed(t *testing.T, p *Process, r probe.Request) probe.Answer {
	t.Helper()
	var answers []probe.Answer
	r.ID = 42
	p.Probe(r, func(a probe.Answer) { answers = append(answers, a) })
	l.Run(2 * probe.Timeout)
	if len(answers) != 1 || answers[0].ID != r.ID {
		t.Fatalf("%+v: answers %+v", r, answers)
	}
	return answers[0]
}

func TestProbesOfADaemon(t *testing.T) {
	for _, to := range []string{"10.5.2.0", "fd05:0:0:2::", "192.168.64.2"} {
		dst := netip.MustParseAddr(to)
		kinds := []probe.Request{
			{Kind: probe.Echo, Size: probe.SmallSize, To: dst},
			{Kind: probe.Large, Size: 1430, To: dst},
			{Kind: probe.Connect, To: dst},
		}
		for _, c := range []struct {
			name  string
			fault func(*lab)
			want  string
		}{
			{"all well", func(*lab) {}, "[true true true]"},
			{"small wire", func(l *lab) { l.hosts[1].Wire("eth0").MTU = 1400 }, "[true false true]"},
			{"no TCP", func(l *lab) { must(t, l.hosts[1].Block(TCP, probe.ClosedPort, true)) }, "[true true false]"},
			{"no ICMP", func(l *lab) { must(t, l.hosts[1].Block(ICMP, 0, true)) }, "[false false true]"},
			{"one way", func(l *lab) { l.hosts[1].Wire("eth0").Deny(l.hosts[0], true) }, "[false false false]"},
			{"other way", func(l *lab) { l.hosts[0].Wire("eth0").Deny(l.hosts[1], true) }, "[false false false]"},
			{"ended", func(l *lab) {
				must(t, l.hosts[1].Block(ICMP, 0, true))
				must(t, l.hosts[1].Block(ICMP, 0, false))
			}, "[true true true]"},
		} {
			t.Run(c.name+" "+to, func(t *testing.T) {
				l := overlay(t, 1, 2)
				c.fault(l)
				p := l.hosts[0].NewProcess(nil, func(do func()) { do() })
				other := l.hosts[1].NewProcess(nil, func(do func()) { do() })
				began := l.Now()
				var got []bool
				for _, r := range kinds {
					got = append(got, l.probed(t, p, r).OK)
				}
				if fmt.Sprint(got) != c.want {
					t.Errorf("got %v, want %s", got, c.want)
				}
				heard := len(other.Heard(began)) > 0
				if blocked := c.name == "one way" || c.name == "no ICMP"; heard == blocked {
					t.Errorf("the other host has heard the probes: %t", heard)
				}
				if len(other.Heard(l.Now().Add(time.Second))) > 0 {
					t.Error("heard in the future")
				}
			})
		}
	}
}

// TestProbeFromForeignAddress probes from an address that the host does not have.
func TestProbeFromForeignAddress(t *testing.T) {
	l := overlay(t, 1, 2)
	p := l.hosts[0].NewProcess(nil, func(do func()) { do() })
	from := netip.MustParseAddr("10.5.1.1")
	for _, kind := range []probe.Kind{probe.Echo, probe.Connect} {
		r := probe.Request{Kind: kind, From: from.Next().Next(), To: netip.MustParseAddr("10.5.2.0"), Size: probe.SmallSize}
		if a := l.probed(t, p, r); a.OK {
			t.Errorf("%+v", a)
		}
		r.FromOptional = true
		if a := l.probed(t, p, r); !a.OK {
			t.Errorf("%+v", a)
		}
		r.FromOptional = false
		r.From = from // the bridge
		if a := l.probed(t, p, r); !a.OK {
			t.Errorf("%+v", a)
		}
	}
}

// TestProbeTooBig sends a packet that is larger than the device's MTU.
func TestProbeTooBig(t *testing.T) {
	l := overlay(t, 1, 2)
	p := l.hosts[0].NewProcess(nil, func(do func()) { do() })
	r := probe.Request{Kind: probe.Large, To: netip.MustParseAddr("10.5.2.0"), Size: 1451}
	if a := l.probed(t, p, r); a.OK || !a.TooBig {
		t.Errorf("%+v", a)
	}
}
