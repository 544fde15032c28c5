package harness_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
)

// requireUpstream returns the path of upstream's own daemon. make test-upstream builds it.
func requireUpstream() string {
	GinkgoHelper()
	program := os.Getenv(harness.UpstreamEnv)
	if program == "" {
		Skip("make test-upstream builds upstream's daemon and runs this")
	}
	return program
}

// Backends that upstream's daemon and ours carry on this kernel.
const (
	mixedVXLAN  = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`
	mixedDirect = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","DirectRouting":true}}`
	mixedHostGW = `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`
	mixedUDP    = `{"Network":"10.5.0.0/16","Backend":{"Type":"udp"}}`
	dualVXLAN   = `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"vxlan"}}`
	dualHostGW  = `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"host-gw"}}`
)

// Upstream's own program, not a stand-in, in one cluster with ours.
var _ = Describe("a cluster with upstream's own daemon", Ordered, func() {
	var daemon, upstream string
	BeforeAll(func(ctx context.Context) {
		upstream = requireUpstream()
		requireTUN()
		var err error
		daemon, err = harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(5*time.Minute))

	// mixed builds a cluster: upstream on the first node and the third, ours on the second.
	mixed := func(ctx context.Context, config string, flags ...string) *harness.Lab {
		GinkgoHelper()
		lab := newLab(ctx, harness.Options{Nodes: 3, IPv6: true, Daemon: daemon, Config: config, DaemonArgs: flags})
		Expect(lab.Nodes[0].StartUpstream(ctx, upstream)).To(Succeed())
		Expect(lab.Nodes[1].Start()).To(Succeed())
		Expect(lab.Nodes[1].WaitReady(ctx)).To(Succeed())
		Expect(lab.Nodes[2].StartUpstream(ctx, upstream)).To(Succeed())
		for _, n := range lab.Nodes {
			_, err := n.AddPod(ctx)
			Expect(err).NotTo(HaveOccurred())
		}
		awaitAll(ctx, lab)
		return lab
	}

	DescribeTable("carries packets between all pods", func(ctx context.Context, config string, flags ...string) {
		lab := mixed(ctx, config, flags...)
		Expect(lab.Nodes[1].Kill()).To(Succeed())
		Expect(lab.Nodes[1].StartUpstream(ctx, upstream)).To(Succeed())
		Expect(lab.Nodes[0].Kill()).To(Succeed())
		Expect(lab.Nodes[0].Start()).To(Succeed())
		Expect(lab.Nodes[0].WaitReady(ctx)).To(Succeed())
		awaitAll(ctx, lab)
	},
		Entry("vxlan", limit, mixedVXLAN),
		Entry("vxlan with direct routes", limit, mixedDirect),
		Entry("vxlan in both families", limit, dualVXLAN),
		Entry("vxlan with masquerading", limit, mixedVXLAN, "--ip-masq"),
		Entry("host-gw", limit, mixedHostGW),
		Entry("host-gw in both families", limit, dualHostGW),
		Entry("udp", limit, mixedUDP),
	)

	DescribeTable("changes a node to ours without a lost packet", func(ctx context.Context, config string, orderly bool) {
		lab := mixed(ctx, config)
		node := lab.Nodes[0]
		before, err := node.SubnetEnv()
		Expect(err).NotTo(HaveOccurred())
		there, back := countLosses(ctx, lab.Pods()[0], lab.Pods()[2]), countLosses(ctx, lab.Pods()[1], lab.Pods()[0])
		if orderly {
			Expect(node.Stop(ctx)).To(Succeed())
		} else {
			Expect(node.Kill()).To(Succeed())
		}
		Expect(node.Start()).To(Succeed())
		Expect(node.WaitReady(ctx)).To(Succeed())
		after, err := node.SubnetEnv()
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Subnet).To(Equal(before.Subnet))
		awaitAll(ctx, lab)
		Expect(there()).To(Equal(0), "lost of the pings from the node")
		Expect(back()).To(Equal(0), "lost of the pings to the node")
	},
		Entry("vxlan, killed", limit, mixedVXLAN, false),
		Entry("vxlan, stopped", limit, mixedVXLAN, true),
		Entry("host-gw, killed", limit, mixedHostGW, false),
		Entry("host-gw, stopped", limit, mixedHostGW, true),
	)

	DescribeTable("changes a node to upstream without a lost packet", func(
		ctx context.Context, config string, nextHops int,
	) {
		lab := mixed(ctx, config)
		node := lab.Nodes[1]
		Expect(node.Stop(ctx)).To(Succeed())
		Expect(node.Start(fmt.Sprintf("--next-hop-objects=%d", nextHops))).To(Succeed())
		Expect(node.WaitReady(ctx)).To(Succeed())
		there, back := countLosses(ctx, lab.Pods()[1], lab.Pods()[2]), countLosses(ctx, lab.Pods()[0], lab.Pods()[1])
		Expect(node.Stop(ctx)).To(Succeed())
		Expect(node.StartUpstream(ctx, upstream)).To(Succeed())
		awaitAll(ctx, lab)
		Expect(there()).To(Equal(0), "lost of the pings from the node")
		Expect(back()).To(Equal(0), "lost of the pings to the node")
	},
		Entry("vxlan", limit, mixedVXLAN, 0),
		Entry("vxlan with next-hop objects", limit, mixedVXLAN, 1),
		Entry("host-gw", limit, mixedHostGW, 0),
		Entry("host-gw with next-hop objects", limit, mixedHostGW, 1),
	)
})

// countLosses pings every 20 ms until the returned function is called, which waits for the last answer and returns the
// number of lost pings.
func countLosses(ctx context.Context, from, to *harness.Pod) (stop func() int) {
	ended, lost := make(chan struct{}), make(chan int, 1)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for count := 0; ; {
			if pingPreserved(ctx, from, to, cidr.V4) != nil {
				count++
			}
			select {
			case <-ended:
				lost <- count
				return
			case <-tick.C:
			}
		}
	}()
	end := sync.OnceFunc(func() { close(ended) })
	DeferCleanup(end)
	return func() int { end(); return <-lost }
}

// awaitAll waits until each pod reaches each other one, in the families of the cluster.
func awaitAll(ctx context.Context, lab *harness.Lab) {
	GinkgoHelper()
	for _, from := range lab.Pods() {
		for _, to := range lab.Pods() {
			for _, f := range cidr.Families {
				if from == to || !from.Addr(f).IsValid() {
					continue
				}
				Eventually(ctx, func() error { return pingPreserved(ctx, from, to, f) }).WithTimeout(20*time.Second).
					Should(Succeed(), "%s", fmt.Sprint(from.Addr(f), " to ", to.Addr(f)))
			}
		}
	}
}
