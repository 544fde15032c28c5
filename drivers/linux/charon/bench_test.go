package charon

import (
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
)

// BenchmarkPeers measures a real charon with many peers whose hosts do not exist, on any kernel: it needs no ESP.
//
//	start   a charon is started and loaded with a key and a connection for each peer
//	look    all of it is read back, while charon negotiates
//	change  the connection of one peer is replaced by one to another address
func BenchmarkPeers(b *testing.B) {
	for _, peers := range []int{1000, 2000} {
		b.Run(fmt.Sprint(peers), func(b *testing.B) {
			n := newNode(b, int(hosts(b).NS))
			for b.Loop() {
				n.do("add ike charon")
				began := time.Now()
				for i, err := range n.Apply(b.Context(), loads(peers)) {
					if err != nil {
						b.Fatalf("op %d: %v", i, err)
					}
				}
				report(b, "start", began)
				b.ReportMetric(cpuOf(b, n.child.cmd.Process.Pid).Seconds()*1000, "charon-cpu-ms")
				began = time.Now()
				if seen := n.dump(); len(seen) < peers {
					b.Fatal("the look tells less than the peers")
				}
				report(b, "look", began)
				began = time.Now()
				old, next := connOf(peers/2, 16), connOf(peers/2, 17)
				for _, err := range n.Apply(b.Context(), []dataplane.Op{
					{Verb: dataplane.Replace, Object: keyOf(next)}, {Verb: dataplane.Replace, Object: next},
					{Verb: dataplane.Delete, Object: old}, {Verb: dataplane.Delete, Object: keyOf(old)},
				}) {
					if err != nil {
						b.Fatal(err)
					}
				}
				report(b, "change", began)
				b.ReportMetric(memoryOf(b, n.child.cmd.Process.Pid), "charon-MB")
				b.ReportMetric(0, "ns/op")
				n.do("del ike charon")
			}
		})
	}
}

// loads are the ops for that many peers.
func loads(peers int) (ops []dataplane.Op) {
	own := dataplane.SharedKey{Secret: psk.Name()}
	own.Owner = netip.MustParseAddr("192.168.64.1")
	ops = append(ops, dataplane.Op{Verb: dataplane.Replace, Object: own})
	for i := range peers {
		c := connOf(i, 16)
		ops = append(ops, dataplane.Op{Verb: dataplane.Replace, Object: keyOf(c)},
			dataplane.Op{Verb: dataplane.Replace, Object: c})
	}
	return ops
}

// connOf is the connection to the i-th peer, in the network 172.net.0.0/16.
func connOf(i int, network byte) dataplane.Conn {
	return dataplane.Conn{
		ConnKey: dataplane.ConnKey{
			Local: netip.MustParseAddr("192.168.64.1"), LocalNet: netip.MustParsePrefix("10.0.0.0/24"),
			RemoteNet: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(1 + i>>8), byte(i), 0}), 24),
			Remote:    netip.AddrFrom4([4]byte{172, network, byte(i >> 8), byte(i)}),
		},
		ESP: "aes128gcm16-sha256-prfsha256-ecp256",
	}
}

func keyOf(c dataplane.Conn) dataplane.SharedKey {
	return dataplane.SharedKey{SharedKeyKey: dataplane.SharedKeyKey{Owner: c.Remote}, Secret: psk.Name()}
}

func report(b *testing.B, what string, began time.Time) {
	b.ReportMetric(time.Since(began).Seconds()*1000, what+"-ms")
}

// cpuOf returns the CPU time of a process.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	const schedClock = 2 // CPUCLOCK_SCHED of the kernel's posix-timers.h
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|schedClock, &t); err != nil {
		b.Fatalf("CPU clock of charon: %v", err)
	}
	return time.Duration(t.Nano())
}

// memoryOf returns the resident memory of a process in MB.
func memoryOf(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	var size, resident float64
	if err == nil {
		_, err = fmt.Sscan(string(text), &size, &resident)
	}
	if err != nil {
		b.Fatal(err)
	}
	return resident * float64(os.Getpagesize()) / 1e6
}
