package harness_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
	"github.com/flanneld/flannel/harness"
)

// With the udp backend, whose daemon carries each packet, a node changes from our daemon
// to upstream's and back. Packets are lost while no daemon runs, but none may leave by the
// default route instead.
var _ = Describe("the udp backend, back to upstream", Ordered, func() {
	var daemon string
	BeforeAll(func(ctx context.Context) {
		requireTUN()
		var err error
		daemon, err = harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(5*time.Minute))

	DescribeTable("carries packets as soon as upstream runs", func(ctx context.Context, orderly bool) {
		lab := newLab(ctx, harness.Options{Nodes: 2, Daemon: daemon, LeaseTTL: time.Minute,
			Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"udp"}}`})
		for _, n := range lab.Nodes {
			Expect(n.Start()).To(Succeed())
		}
		for _, n := range lab.Nodes {
			Expect(n.WaitReady(ctx)).To(Succeed())
			_, err := n.AddPod(ctx)
			Expect(err).NotTo(HaveOccurred())
		}
		node := lab.Nodes[0]
		pod, peer := lab.Pods()[0], lab.Pods()[1]
		awaitPing(ctx, pod, peer)
		watchLeaks(ctx, node)
		stream := startStream(ctx, pod, peer)

		if orderly {
			Expect(node.Stop(ctx)).To(Succeed())
		} else {
			Expect(node.Kill()).To(Succeed())
		}
		stream.expectLosses(ctx)
		upstream := startUpstream(ctx, node, lab.Nodes[1])
		stream.expectNoLoss(ctx)

		Expect(upstream.Close()).To(Succeed())
		stream.expectLosses(ctx)
		Expect(node.Start()).To(Succeed())
		Expect(node.WaitReady(ctx)).To(Succeed())
		stream.expectNoLoss(ctx)
		stream.stop()
		Expect(leaked(ctx, node)).To(ContainSubstring("packets 0 bytes 0"))
	},
		Entry("after an orderly stop", limit, true),
		Entry("after a kill", limit, false),
	)
})

// awaitPing waits until packets pass between two pods.
func awaitPing(ctx context.Context, from, to *harness.Pod) {
	GinkgoHelper()
	Eventually(ctx, func() error { return pingPreserved(ctx, from, to, cidr.V4) }).Should(Succeed())
}

// startUpstream makes the objects of upstream's udp backend on a node (interop 6.1: udp): a
// device with the next free number, the subnet's base as its address, and a route to the
// network, unless there is one. It then carries packets.
func startUpstream(ctx context.Context, on, peer *harness.Node) *linuxtest.Upstream {
	GinkgoHelper()
	u := &linuxtest.Upstream{Peers: map[netip.Prefix]netip.AddrPort{
		subnetOf(peer): netip.AddrPortFrom(peer.Underlay(cidr.V4).Addr(), 8285),
	}}
	env, err := on.SubnetEnv()
	Expect(err).NotTo(HaveOccurred())
	u.MTU = env.MTU
	var device string
	Expect(on.Do(func() error {
		opened, name, err := linuxtest.OpenTUN("flannel%d")
		if err != nil {
			return err
		}
		u.Device, device = opened, name
		local := netip.AddrPortFrom(on.Underlay(cidr.V4).Addr(), 8285)
		u.Socket, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(local))
		return err
	})).To(Succeed())
	_, err = on.Shell(ctx, fmt.Sprintf("ip addr add %[2]s/32 dev %[1]s; ip link set %[1]s mtu %[3]d up; "+
		"ip route add 10.5.0.0/16 dev %[1]s || test $? = 2", device, subnetOf(on).Addr(), u.MTU))
	Expect(err).NotTo(HaveOccurred())
	u.Start()
	return u
}

// subnetOf returns the subnet of a node.
func subnetOf(n *harness.Node) netip.Prefix {
	GinkgoHelper()
	env, err := n.SubnetEnv()
	Expect(err).NotTo(HaveOccurred())
	return env.Subnet[cidr.V4].Masked()
}

// watchLeaks counts packets between pods that leave a node without a tunnel.
func watchLeaks(ctx context.Context, n *harness.Node) {
	GinkgoHelper()
	_, err := n.Shell(ctx, `nft -f - <<END
table ip leaks {
	chain out {
		type filter hook postrouting priority 300
		oifname "eth0" ip daddr 10.5.0.0/16 counter
	}
}
END`)
	Expect(err).NotTo(HaveOccurred())
}

// leaked returns what watchLeaks has counted.
func leaked(ctx context.Context, n *harness.Node) (string, error) {
	out, err := n.Shell(ctx, "nft list table ip leaks")
	return strings.TrimSpace(out), err
}

// stream sends one ping after the other from one pod to another.
type stream struct {
	results chan error
	cancel  context.CancelFunc
}

// startStream pings every 20 ms until it is stopped.
func startStream(ctx context.Context, from, to *harness.Pod) *stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{results: make(chan error, 1), cancel: cancel}
	tick := time.NewTicker(20 * time.Millisecond)
	go func() {
		defer close(s.results)
		defer tick.Stop()
		for ctx.Err() == nil {
			err := pingPreserved(ctx, from, to, cidr.V4)
			select {
			case <-ctx.Done():
			case s.results <- err:
				<-tick.C
			}
		}
	}()
	DeferCleanup(s.stop)
	return s
}

// expectLosses waits for the loss of some packets in a row.
func (s *stream) expectLosses(ctx context.Context) {
	GinkgoHelper()
	s.await(ctx, 3, HaveOccurred())
}

// expectNoLoss waits for the first packet to arrive; then a hundred must.
func (s *stream) expectNoLoss(ctx context.Context) {
	GinkgoHelper()
	s.await(ctx, 1, Succeed())
	for range 100 {
		Expect(s.next(ctx)).To(Succeed())
	}
}

// await waits until that many pings in a row end as the matcher demands.
func (s *stream) await(ctx context.Context, inARow int, ends OmegaMatcher) {
	GinkgoHelper()
	run := 0
	Eventually(ctx, func() int {
		run++
		if matches, err := ends.Match(s.next(ctx)); err != nil || !matches {
			run = 0
		}
		return run
	}).WithTimeout(20*time.Second).WithPolling(time.Millisecond).Should(BeNumerically(">=", inARow), "pings in a row")
}

// next returns the outcome of the next ping.
func (s *stream) next(ctx context.Context) error {
	GinkgoHelper()
	select {
	case <-ctx.Done():
		Fail("the stream stands still")
		return ctx.Err()
	case err := <-s.results:
		return err
	}
}

// stop ends the stream.
func (s *stream) stop() {
	s.cancel()
	for range s.results {
	}
}
