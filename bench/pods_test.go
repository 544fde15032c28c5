package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// BenchmarkPods measures what the daemon needs while the devices of up to 100 pods a second come and go on its node,
// as a CNI plugin makes them: on a bridge, which keeps its MAC, with the other end in the namespace of a pod.
func BenchmarkPods(b *testing.B) {
	const peers = 1000
	ctx, lab := newLab(b, 1, peers)
	n := lab.Nodes[0]
	start(ctx, b, n, peers, noProbes)
	host := n.Netlink()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "cni0", HardwareAddr: []byte{2, 0, 0, 0, 5, 1}}}
	must(host.LinkAdd(bridge))
	must(host.LinkSetUp(bridge))
	pods, err := lab.AddHost("pods")
	must(err)
	pod := func(i int) netlink.Link {
		b.Helper()
		attrs := netlink.LinkAttrs{Name: fmt.Sprintf("veth%08x", i), MasterIndex: bridge.Attrs().Index}
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: attrs.Name, PeerNamespace: netlink.NsFd(pods.FD())}
		must(host.LinkAdd(veth))
		must(host.LinkSetUp(veth))
		peer, err := pods.Netlink().LinkByName(veth.PeerName)
		must(err)
		must(pods.Netlink().LinkSetUp(peer))
		return veth
	}
	pod(0) // the bridge keeps its carrier
	began, since := rest(ctx, b, n.PID(), 0), time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 1; b.Loop(); i++ {
		<-tick.C
		must(host.LinkDel(pod(i)))
	}
	used := cpuTime(b, n.PID()) - began
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(100*used.Seconds()/time.Since(since).Seconds(), "cpu-%")
}
