package firewall

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// bothFamilies returns the chains of a dual-stack node.
func bothFamilies(t testing.TB, flavour dataplane.Flavour) []dataplane.Chain {
	return append(wanted(t, flavour, cidr.V4), wanted(t, flavour, cidr.V6)...)
}

// BenchmarkLook measures a look at a dual-stack node, in wall and CPU time:
// where nothing has changed, and where everything must be read. The table nat
// also holds as many rules as kube-proxy makes for that many services.
func BenchmarkLook(b *testing.B) {
	for _, m := range makings {
		for _, services := range []int{0, 2000} {
			for _, changed := range []bool{false, true} {
				name := map[bool]string{false: "unchanged", true: "changed"}[changed]
				b.Run(fmt.Sprintf("%s/services=%d/%s", m, services, name), func(b *testing.B) {
					w := newWorld(b, m.variant)
					w.direct(b)
					w.services(b, services)
					w.apply(b, ops(dataplane.Create, bothFamilies(b, m.flavour))...)
					w.inspect(b)
					start := cpuTime(b)
					for b.Loop() {
						if changed {
							w.f.seen = cache{}
						}
						if _, err := w.f.Look(b.Context(), dataplane.Extent{}); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/1000/float64(b.N), "cpu-ms/op")
				})
			}
		}
	}
}

// BenchmarkReplace writes all chains of a dual-stack node again.
func BenchmarkReplace(b *testing.B) {
	for _, m := range makings {
		b.Run(m.String(), func(b *testing.B) {
			w := newWorld(b, m.variant)
			w.direct(b)
			chains := ops(dataplane.Replace, bothFamilies(b, m.flavour))
			start := cpuTime(b)
			for b.Loop() {
				w.apply(b, chains...)
			}
			b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// services makes rules like kube-proxy's.
func (w *world) services(t testing.TB, n int) {
	t.Helper()
	var s strings.Builder
	s.WriteString("*nat\n:KUBE-SERVICES - [0:0]\n")
	for i := range n {
		fmt.Fprintf(&s, ":KUBE-SVC-%d - [0:0]\n-A KUBE-SERVICES -d 10.96.%d.%d/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-%d\n",
			i, i>>8, i&255, i)
		fmt.Fprintf(&s, "-A KUBE-SVC-%d -p tcp -j DNAT --to-destination 10.5.%d.%d:8080\n", i, i>>8, i&255)
	}
	w.sh(t, "iptables-restore --noflush <<'END'\n"+s.String()+"COMMIT\nEND")
}

// direct removes the shell that notes each start from before the programs.
func (p *programs) direct(t testing.TB) {
	t.Helper()
	for name, path := range p.real {
		p.link(t, name, path)
	}
}

// cpuTime returns the CPU time of the process and its children.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var sum int64
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			t.Fatal(err)
		}
		sum += u.Utime.Nano() + u.Stime.Nano()
	}
	return time.Duration(sum)
}
