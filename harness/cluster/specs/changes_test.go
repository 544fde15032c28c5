package specs_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("a changed configuration", func() {
	It("reaches the daemons by its ConfigMap alone, and no packet is lost", func(ctx context.Context) {
		expectNoLoss := traffic(ctx)
		former := setNetwork(ctx, func(config map[string]any) {
			config["EnableNFTables"] = config["EnableNFTables"] != true
			if backend := config["Backend"].(map[string]any); backend["Type"] == "vxlan" {
				backend["DirectRouting"] = true
			}
		})
		for _, n := range kube.Nodes {
			Eventually(func(g Gomega) {
				tables, err := n.Run(ctx, "nft", "list", "tables")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(tables).To(ContainSubstring("flannel-ipv4"))
				rules, err := n.Run(ctx, "iptables-save")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(rules).NotTo(ContainSubstring("FLANNEL"))
				peers, err := flannelctl(ctx, n, "peers")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(peers).NotTo(ContainSubstring("tunnel flannel.1"))
			}).WithContext(ctx).Should(Succeed(), n.Name)
		}
		writeNetwork(ctx, former)
		for _, n := range kube.Nodes {
			Eventually(func(g Gomega) {
				tables, err := n.Run(ctx, "nft", "list", "tables")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(tables).NotTo(ContainSubstring("flannel-ipv4"))
			}).WithContext(ctx).Should(Succeed(), n.Name)
		}
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		expectNoLoss()
	}, limit, anyKernel)
})
