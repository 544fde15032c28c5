package harness_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
)

// Where flanneld's own process carries packets, the kernel knows no peers, and flannelctl trace asks the daemon.
var _ = Describe("flannelctl trace, where flanneld carries packets", func() {
	trace := func(ctx context.Context, backend, knows string) {
		requireTools("iptables")
		requireTUN()
		program, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		tool, err := harness.BuildTool(ctx)
		Expect(err).NotTo(HaveOccurred())
		lab := newLab(ctx, harness.Options{Nodes: 2, Daemon: program, LeaseTTL: time.Hour,
			Config: fmt.Sprintf(`{"Network":"10.5.0.0/16","Backend":%s}`, backend)})
		for _, n := range lab.Nodes {
			Expect(n.Start()).To(Succeed())
			Expect(n.WaitReady(ctx)).To(Succeed())
			_, err := n.AddPod(ctx)
			Expect(err).NotTo(HaveOccurred())
		}
		n1, n2 := lab.Nodes[0], lab.Nodes[1]
		src, dst := n1.Pods[0].Addr(cidr.V4), n2.Pods[0].Addr(cidr.V4)
		Eventually(func() error {
			_, err := n1.Pods[0].Ping(ctx, dst, harness.PingOptions{})
			return err
		}).WithContext(ctx).Should(Succeed())
		traced := func(n *harness.Node) string {
			GinkgoHelper()
			out, err := n.Shell(ctx,
				fmt.Sprintf("%s trace %s %s --subnet-file %s 2>&1 || [ $? = 1 ]", tool, src, dst, n.SubnetFile()))
			Expect(err).NotTo(HaveOccurred())
			return out
		}

		Eventually(func() string { return traced(n1) }).WithContext(ctx).Should(And(ContainSubstring(knows),
			ContainSubstring("goes on at 192.168.64.2"), Not(ContainSubstring("no handshake"))))
		Expect(traced(n2)).To(ContainSubstring("to the pod " + dst.String()))

		By("the daemon has ended, and its devices stay")
		Expect(n1.Kill()).To(Succeed())
		Expect(traced(n1)).To(And(ContainSubstring("ends here: no_process"), ContainSubstring("start flanneld")))
	}
	It("follows a packet into WireGuard", func(ctx context.Context) {
		trace(ctx, `{"Type":"wireguard","Implementation":"userspace"}`, "(WireGuard, UDP port 51820)")
	}, limit)
	It("follows a packet into udp", func(ctx context.Context) {
		trace(ctx, `{"Type":"udp"}`, "(by flanneld itself, which reads flannel0)")
	}, limit)
})
