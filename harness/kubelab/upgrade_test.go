package kubelab_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
)

// rules returns flannel's rules in the packet filter, with P in the place of
// the subnet.
func rules(ctx context.Context, n *harness.Node) string {
	GinkgoHelper()
	text, err := n.Shell(ctx,
		"iptables-save | grep -i flannel || true; nft list table ip flannel-ipv4 2>/dev/null || true")
	Expect(err).NotTo(HaveOccurred())
	return strings.ReplaceAll(text, podCIDR(n), "P")
}

// pinging pings without a pause until stop is called, which returns the number of
// pings and the first loss.
func pinging(ctx context.Context, from, to *harness.Pod) (stop func() (sent int, err error)) {
	done := make(chan struct{})
	var sent int
	var lost error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
			}
			_, err := from.Ping(ctx, to.Addr(cidr.V4), harness.PingOptions{})
			sent++
			if err != nil && lost == nil {
				lost = fmt.Errorf("ping %d: %w", sent, err)
			}
		}
	}()
	return func() (int, error) {
		close(done)
		<-ended
		return sent, lost
	}
}

// remember returns a check that a node's device, annotations and subnet file are still the same: the other daemon finds
// them again, and peers depend on them.
func (c *cluster) remember(ctx context.Context, n *harness.Node) (kept func()) {
	GinkgoHelper()
	device := func() (index int, mac string) {
		GinkgoHelper()
		link, err := n.Netlink().LinkByName("flannel.1")
		Expect(err).NotTo(HaveOccurred())
		return link.Attrs().Index, link.Attrs().HardwareAddr.String()
	}
	index, mac := device()
	published := c.node(ctx, n.Name).Annotations
	file, err := os.ReadFile(n.SubnetFile())
	Expect(err).NotTo(HaveOccurred())
	return func() {
		GinkgoHelper()
		nowIndex, nowMAC := device()
		Expect(nowIndex).To(Equal(index), "the device was never made anew")
		Expect(nowMAC).To(Equal(mac))
		Expect(c.node(ctx, n.Name).Annotations).To(Equal(published))
		Expect(os.ReadFile(n.SubnetFile())).To(Equal(file))
	}
}

var _ = Describe("A node of upstream's own daemon", Ordered, func() {
	var upstream string
	BeforeAll(func() {
		upstream = os.Getenv(harness.UpstreamEnv)
		if upstream == "" {
			Skip("make bin/upstream-flanneld builds upstream's daemon, and make test-kube runs this then")
		}
	})

	DescribeTable("is taken over without a lost packet, and given back", func(ctx context.Context, netconf string) {
		c := newCluster(ctx, 2, netconf, "--ip-masq", "--iptables-forward-rules")
		n1, n2 := c.lab.Nodes[0], c.lab.Nodes[1]
		c.registerAll(ctx)
		// kubelet's; upstream panics where a node has no annotation at all
		c.patch(ctx, "n1", map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}})
		Expect(n2.Start()).To(Succeed())
		Expect(n2.WaitReady(ctx)).To(Succeed())
		Expect(n1.StartUpstream(ctx, upstream)).To(Succeed())
		for _, n := range c.lab.Nodes {
			_, err := n.AddPod(ctx)
			Expect(err).NotTo(HaveOccurred())
		}
		c.pingAll(ctx)
		kept := c.remember(ctx, n1)

		stop := pinging(ctx, c.lab.Pods()[0], c.lab.Pods()[1])
		Expect(n1.Kill()).To(Succeed())
		Expect(n1.Start()).To(Succeed())
		Expect(n1.WaitReady(ctx)).To(Succeed())
		kept()
		Expect(rules(ctx, n1)).To(Equal(rules(ctx, n2)), "nothing of upstream's rules is left")

		Expect(n1.Stop(ctx)).To(Succeed())
		Expect(n1.StartUpstream(ctx, upstream)).To(Succeed())
		kept()
		c.pingAll(ctx)
		sent, lost := stop()
		Expect(lost).NotTo(HaveOccurred(), "of %d", sent)
		Expect(sent).To(BeNumerically(">", 0))
	},
		Entry("with iptables", vxlan, limit),
		Entry("with nftables", `{"Network":"10.244.0.0/16","EnableNFTables":true,"Backend":{"Type":"vxlan"}}`, limit),
	)
})
