package kernel

import (
	"net/netip"
	"testing"
	"time"

	"github.com/flanneld/flannel/drivers/sim/world"
)

// TestListenersChangeNothing runs a world with a listener for everything: the
// listener leaves no mark in the trace.
func TestListenersChangeNothing(t *testing.T) {
	run := func(listen bool) (hash uint64, notes int, probes []string) {
		w := world.New(3)
		n := NewNetwork(w)
		g := n.NewSegment("lan")
		a, b := n.NewHost("a"), n.NewHost("b")
		for i, h := range []*Host{a, b} {
			addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})
			if _, err := h.AddUplink("eth0", g, netip.PrefixFrom(addr, 24)); err != nil {
				t.Fatal(err)
			}
		}
		if listen {
			w.OnNote(func(string, string) { notes++ })
			n.OnProbe(func(p *Probe) { probes = append(probes, p.From()+" "+p.Dst.String()) })
		}
		w.RunUntil(a.Ping(netip.MustParseAddr("192.0.2.2"), PingOptions{}).Done, time.Second)
		return w.TraceHash(), notes, probes
	}
	quiet, _, _ := run(false)
	heard, notes, probes := run(true)
	if quiet != heard {
		t.Errorf("trace %x with listeners, %x without", heard, quiet)
	}
	if notes == 0 || len(probes) != 1 || probes[0] != "a 192.0.2.2" {
		t.Errorf("heard %d notes and of the probes %q", notes, probes)
	}
}
