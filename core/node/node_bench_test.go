package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/driver"
)

// benchWorld is a node that serves that many vxlan peers, with next-hop objects as the daemon uses them.
func benchWorld(b *testing.B, peers int) *world {
	w := newWorld(b, `{"Network":"10.0.0.0/8","Backend":{"Type":"vxlan"}}`, objectsFrom(DefaultNextHopsFrom))
	w.facts.NextHops = true
	for i := range peers {
		l := vxlanPeer(fmt.Sprintf("10.%d.%d.0-24", 1+i/250, i%250), 0)
		l.Attrs.PublicIP = w.facts.Links[0].Addrs[0].Prefix.Addr()
		for range i + 10 {
			l.Attrs.PublicIP = l.Attrs.PublicIP.Next()
		}
		l.Attrs.BackendData = fmt.Appendf(nil, `{"VNI":1,"VtepMAC":"c6:00:00:00:%02x:%02x"}`, i>>8, i&255)
		w.put(l)
	}
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	return w
}

// BenchmarkNoChangePass is the core's share of a look that finds all well.
func BenchmarkNoChangePass(b *testing.B) {
	for _, peers := range []int{1000, 5000, 20_000} {
		b.Run(fmt.Sprint(peers), func(b *testing.B) {
			w := benchWorld(b, peers)
			look := Looked{Seen: driver.Observation{Facts: w.facts, State: w.host}, SubnetFile: w.subnetFile()}
			b.ReportAllocs()
			for b.Loop() {
				w.now = w.now.Add(time.Minute)
				w.n.Step(w.now, Input{})
				if w.n.Ready().Lanes[HostLane].Look == nil {
					b.Fatal("no look after a minute")
				}
				w.n.Step(w.now, looked(HostLane, look))
				if r := w.n.Ready(); r.Lanes[HostLane].Plan != nil {
					b.Fatalf("%d changes in a quiet world", len(r.Lanes[HostLane].Plan))
				}
			}
		})
	}
}

// BenchmarkStatus describes a node with that many peers, for a scrape and for tools, and
// encodes its state file.
func BenchmarkStatus(b *testing.B) {
	for _, peers := range []int{5000, 20_000} {
		w := benchWorld(b, peers)
		for name, describe := range map[string]func(){
			"status":      func() { w.n.Status() },
			"peers":       func() { w.n.Peers() },
			"differences": func() { w.n.Differences() },
			"state-file":  func() { _, _ = w.n.state().encode() },
		} {
			b.Run(fmt.Sprintf("%s/%d", name, peers), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					describe()
				}
			})
		}
	}
}
