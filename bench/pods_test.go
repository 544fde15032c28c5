package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/time/rate"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/internal/wholedump"
)

// BenchmarkPods measures what the daemon needs while the devices of 100 pods a second come and go on its node,
// as a CNI plugin makes them: on a bridge, which keeps its MAC, with the other end in the namespace of a pod. Several
// makers share the work, since the kernel takes some 20 ms to remove a device.
func BenchmarkPods(b *testing.B) {
	const (
		peers  = 1000
		makers = 8
		wanted = 110 // a second, if this machine is as fast
	)
	ctx, lab := newLab(b, 1, peers)
	n := lab.Nodes[0]
	start(ctx, b, n, peers, noProbes)
	must := func(err error) {
		if err != nil {
			b.Error(err)
		}
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "cni0", HardwareAddr: []byte{2, 0, 0, 0, 5, 1}}}
	must(n.Netlink().LinkAdd(bridge))
	must(n.Netlink().LinkSetUp(bridge))
	pods, err := lab.AddHost("pods")
	must(err)
	first, err := newPodMaker(n, pods, bridge)
	must(err)
	if b.Failed() {
		b.FailNow()
	}
	defer first.close()
	_, err = first.make(0) // the bridge keeps its carrier
	must(err)
	began, since := rest(ctx, b, n.PID(), 0), time.Now()
	pace := rate.NewLimiter(wanted, makers)
	var last atomic.Int64
	b.SetParallelism(makers)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		m, err := newPodMaker(n, pods, bridge)
		must(err)
		if err != nil {
			return
		}
		defer m.close()
		for err == nil && pb.Next() {
			err = m.comeAndGo(ctx, pace, last.Add(1))
			must(err)
		}
	})
	b.StopTimer()
	used, took := cpuTime(b, n.PID())-began, time.Since(since)
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(100*used.Seconds()/took.Seconds(), "cpu-%")
	b.ReportMetric(float64(b.N)/took.Seconds(), "pods/s")
}

// podMaker makes devices of pods by requests of its own, which wait for those of no other.
type podMaker struct {
	host, pods *wholedump.Handle
	space      int // the namespace of the pods
	bridge     int
}

func newPodMaker(n *harness.Node, pods *harness.Host, bridge netlink.Link) (*podMaker, error) {
	host, err := wholedump.At(netns.NsHandle(n.NamespaceFD()))
	if err != nil {
		return nil, err
	}
	inside, err := wholedump.At(netns.NsHandle(pods.NamespaceFD()))
	if err != nil {
		return nil, err
	}
	return &podMaker{host: host, pods: inside, space: pods.NamespaceFD(), bridge: bridge.Attrs().Index}, nil
}

func (m *podMaker) close() {
	m.host.Close()
	m.pods.Close()
}

// make makes the devices of a pod.
func (m *podMaker) make(number int64) (netlink.Link, error) {
	attrs := netlink.LinkAttrs{Name: fmt.Sprintf("veth%08x", number), MasterIndex: m.bridge}
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: attrs.Name, PeerNamespace: netlink.NsFd(m.space)}
	if err := errors.Join(m.host.LinkAdd(veth), m.host.LinkSetUp(veth)); err != nil {
		return nil, err
	}
	peer, err := m.pods.LinkByName(veth.PeerName)
	if err != nil {
		return nil, err
	}
	return veth, m.pods.LinkSetUp(peer)
}

// comeAndGo makes the devices of a pod when it is time, and removes them.
func (m *podMaker) comeAndGo(ctx context.Context, pace *rate.Limiter, number int64) error {
	if err := pace.Wait(ctx); err != nil {
		return err
	}
	veth, err := m.make(number)
	if err != nil {
		return err
	}
	return m.host.LinkDel(veth)
}
