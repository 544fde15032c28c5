package specs_test

import (
	"context"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// setEnv has the values of the chart with which the cluster's manifest was made, each NAME=VALUE.
const setEnv = "FLANNEL_LAB_CLUSTER_SET"

// The commands are those of docs/kubernetes.md.
var _ = Describe("helm", func() {
	It("installs, upgrades and rolls back the chart, and no packet is lost", func(ctx context.Context) {
		expectNoLoss := traffic(ctx)
		DeferCleanup(backToManifest)
		kubectl(ctx, "delete", "-f", manifest())
		helm(ctx, append([]string{"install", "flannel", chart, "--namespace", "kube-flannel", "--create-namespace",
			"--set", "podCidr=10.244.0.0/16"}, chartValues()...)...)
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		expectFollowing(ctx)
		expectTables(ctx, false)

		helm(ctx, "upgrade", "flannel", chart, "--namespace", "kube-flannel", "--reuse-values",
			"--set", "flannel.enableNFTables=true")
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		expectTables(ctx, true)

		helm(ctx, "rollback", "flannel", "--namespace", "kube-flannel")
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		expectTables(ctx, false)
		expectNoLoss()
	}, limit)

	It("takes over what kubectl has applied, with a values file for upstream's chart", func(ctx context.Context) {
		expectNoLoss := traffic(ctx)
		args := append([]string{"install", "flannel", chart, "--namespace", "kube-flannel", "-f", "helm-values.yml"},
			chartValues()...)
		DeferCleanup(backToManifest)
		out, err := kube.Helm(ctx, args...)
		Expect(err).To(MatchError(ContainSubstring("invalid ownership metadata")), out)
		Expect(helm(ctx, append(args, "--take-ownership")...)).To(ContainSubstring("flannel.image_cni"))
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		pods := kubectl(ctx, "-n", "kube-flannel", "get", "pods", "-o", "yaml")
		Expect(pods).To(ContainSubstring("example.com/team: network"))
		expectFollowing(ctx)
		expectNoLoss()
	}, limit)
})

const chart = repo + "deploy/chart"

// helm runs helm and returns its output.
func helm(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := kube.Helm(ctx, args...)
	Expect(err).NotTo(HaveOccurred())
	return out
}

// chartValues returns the flags for helm that lead to the cluster's manifest.
func chartValues() []string {
	var flags []string
	for _, value := range strings.Fields(os.Getenv(setEnv)) {
		flags = append(flags, "--set", value)
	}
	return flags
}

// backToManifest replaces what helm has installed by the cluster's manifest.
func backToManifest(ctx context.Context) {
	GinkgoHelper()
	kubectl(ctx, "apply", "-f", manifest())
	kubectl(ctx, "-n", "kube-flannel", "delete", "secrets", "-l", "owner=helm,name=flannel")
	kubectl(ctx, "annotate", "-f", manifest(), "meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-")
	Expect(kube.AwaitFlannel(ctx)).To(Succeed())
}

// expectTables checks that the nodes have flannel's tables of nftables, or its chains of iptables.
func expectTables(ctx context.Context, nftables bool) {
	GinkgoHelper()
	for _, n := range kube.Nodes {
		Eventually(func(g Gomega) {
			tables, err := n.Run(ctx, "nft", "list", "tables")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(strings.Contains(tables, "flannel-ipv4")).To(Equal(nftables), tables)
		}).WithContext(ctx).Should(Succeed(), n.Name)
	}
}
