package kubelab_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
)

// confineAll runs all daemons as in the pods of the manifest and the image:
// with only two capabilities, and with nft as the only tool.
func (c *cluster) confineAll() {
	GinkgoHelper()
	nft, err := exec.LookPath("nft")
	Expect(err).NotTo(HaveOccurred())
	image := GinkgoT().TempDir()
	Expect(os.Symlink(nft, filepath.Join(image, "nft"))).To(Succeed())
	for _, n := range c.lab.Nodes {
		n.Confined = true
		n.Env = append(n.Env, "PATH="+image)
	}
}

var _ = Describe("In the container of the manifest", func() {
	DescribeTable("the daemon gets ready and carries packets", func(ctx context.Context, netconf string, settings int) {
		c := newCluster(ctx, 2, netconf, "--ip-masq", "--iptables-forward-rules")
		c.confineAll()
		dual := strings.Contains(netconf, "EnableIPv6")
		for _, n := range c.lab.Nodes {
			cidrs := []string{podCIDR(n)}
			if dual {
				cidrs = append(cidrs, podCIDR6(n))
			}
			c.register(ctx, n.Name, cidrs...)
		}
		c.startAll(ctx)
		c.pingAll(ctx)
		pods := c.lab.Pods()
		if dual {
			_, err := pods[0].Ping(ctx, pods[1].Addr(cidr.V6), harness.PingOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		for _, n := range c.lab.Nodes {
			Expect(strings.Count(n.Log(), "setting-denied")).To(Equal(settings), "settings that the container may not change")
			rules, err := n.Shell(ctx, "nft list chain ip flannel-ipv4 postrtg")
			Expect(err).NotTo(HaveOccurred())
			Expect(rules).To(ContainSubstring("masquerade"))
		}
	},
		Entry("vxlan", `{"Network":"10.244.0.0/16","EnableNFTables":true,"Backend":{"Type":"vxlan"}}`, 1, limit),
		Entry("vxlan, both families", `{"Network":"10.244.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48",
			"EnableNFTables":true,"Backend":{"Type":"vxlan"}}`, 2, limit),
		Entry("vxlan, iptables wanted and missing", `{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan"}}`, 1, limit),
		Entry("host-gw", `{"Network":"10.244.0.0/16","EnableNFTables":true,"Backend":{"Type":"host-gw"}}`, 0, limit),
	)

	DescribeTable("says that it lacks the TUN device, and waits for it", func(ctx context.Context, backend string) {
		c := newCluster(ctx, 1, `{"Network":"10.244.0.0/16","EnableNFTables":true,"Backend":`+backend+`}`)
		c.confineAll()
		c.registerAll(ctx)
		n := c.lab.Nodes[0]
		Expect(n.Start()).To(Succeed())
		Eventually(func() error {
			_, err := n.Ready(ctx)
			return err
		}).WithContext(ctx).Should(MatchError(ContainSubstring("/dev/net/tun")))
		Expect(n.Running()).To(BeTrue())
	},
		Entry("udp", `{"Type":"udp"}`, limit),
		Entry("wireguard without the kernel's", `{"Type":"wireguard","Implementation":"userspace"}`, limit),
	)
})
