package simbench

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/drivers/sim/daemon"
)

// manyPeers is the number of records beside the node's own.
const manyPeers = 5000

// peersOf are the backends to compare, with the BackendData of the i-th peer.
var peersOf = []struct {
	backend string
	data    func(i int) string
}{
	{"vxlan", func(i int) string { return fmt.Sprintf(`{"VNI":1,"VtepMAC":"c6:00:00:00:%02x:%02x"}`, i>>8, i&255) }},
	{"wireguard", func(i int) string {
		key := make([]byte, 32)
		rng := rand.New(rand.NewPCG(uint64(i), 0))
		for j := range key {
			key[j] = byte(rng.Uint32())
		}
		return fmt.Sprintf(`{"PublicKey":%q,"Port":51820}`, base64.StdEncoding.EncodeToString(key))
	}},
	{"ipip", func(int) string { return "null" }},
	{"ipsec", func(int) string { return "null" }},
}

// lonely is one daemon in a cluster of records: the hosts of its peers do not exist.
type lonely struct {
	*cluster
	backend string
	data    func(i int) string
	daemon  *daemon.Daemon
}

// newLonely returns one that has not started.
func newLonely(b *testing.B, backend string, data func(int) string) *lonely {
	spec, _ := all.Find(backend)
	c := newCluster(b, 1)
	c.must(c.store.Put("config", fmt.Sprintf(`{"Network":"10.0.0.0/8","Backend":%s}`, spec.Example()), 0))
	l := &lonely{cluster: c, backend: backend, data: data, daemon: c.daemons[0]}
	for i := range manyPeers {
		l.put(i, 0)
	}
	return l
}

// put writes the record of a peer, which has one of two addresses by its version.
func (l *lonely) put(i, version int) {
	address := netip.AddrFrom4([4]byte{172, byte(17 + version%2), byte(i >> 8), byte(i)})
	l.must(l.store.Put(fmt.Sprintf("subnets/10.%d.%d.0-24", 1+i/250, i%250), fmt.Sprintf(
		`{"PublicIP":%q,"PublicIPv6":null,"BackendType":%q,"BackendData":%s}`, address, l.backend, l.data(i)), 0))
}

// ready lets time pass until the node has served all records.
func (l *lonely) ready() {
	l.b.Helper()
	ready := func() bool {
		s := l.daemon.Status()
		return s.Ready && s.Peers == manyPeers && s.Programmed == l.store.Snapshot().Revision
	}
	for began := l.Now(); !ready(); l.Run(50 * time.Millisecond) {
		if l.Now().Sub(began) > patient {
			l.b.Fatalf("not ready after %s: %v", patient, l.daemon.Status().Reasons)
		}
	}
}

// BenchmarkPeers compares the backends on one node with 5,000 peers. All figures include
// the work of the simulated kernel and of the simulated datastore.
//
//	start   from nothing until the node is ready and serves all peers
//	pass    half a minute in which nothing changes
//	change  a peer gets another address, until the node has followed
func BenchmarkPeers(b *testing.B) {
	for _, p := range peersOf {
		b.Run(p.backend+"/start", func(b *testing.B) {
			var spent time.Duration
			for b.Loop() {
				before := liveMB()
				l := newLonely(b, p.backend, p.data)
				l.daemon.Start()
				spent += cpuOf(l.ready)
				b.ReportMetric(liveMB()-before, "live-MB")
				runtime.KeepAlive(l)
			}
			reportCPU(b, spent)
		})
		b.Run(p.backend+"/pass", func(b *testing.B) {
			l := newLonely(b, p.backend, p.data)
			l.daemon.Start()
			l.ready()
			l.Run(time.Minute)
			var spent time.Duration
			b.ReportAllocs()
			for b.Loop() {
				spent += cpuOf(func() { l.Run(30 * time.Second) })
			}
			reportCPU(b, spent)
		})
		b.Run(p.backend+"/change", func(b *testing.B) {
			l := newLonely(b, p.backend, p.data)
			l.daemon.Start()
			l.ready()
			var spent time.Duration
			for version := 1; b.Loop(); version++ {
				l.put(7, version)
				spent += cpuOf(func() {
					l.Run(time.Second)
					l.ready()
				})
			}
			reportCPU(b, spent)
		})
	}
}

// cpuOf returns the CPU time of a function, including that of the garbage collector in the meantime.
func cpuOf(do func()) time.Duration {
	before := cpuTime()
	do()
	return cpuTime() - before
}

// reportCPU reports CPU time in place of wall time, which depends on other work.
func reportCPU(b *testing.B, spent time.Duration) {
	b.ReportMetric(spent.Seconds()*1000/float64(b.N), "cpu-ms/op")
}

// liveMB is the memory of all live objects.
func liveMB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}
