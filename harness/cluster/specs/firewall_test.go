package specs_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/harness/cluster"
)

// stale has the rules that upstream leaves on a node with iptables: the chains of v0.20.0, to which the first rules
// of the shared chains jump, and the rules of v0.16 to v0.19, which are in the shared chains. OWN stands for the
// node's subnet.
const stale = `*nat
:FLANNEL-POSTRTG - [0:0]
-I POSTROUTING 1 -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
-A FLANNEL-POSTRTG -s 10.244.0.0/16 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d OWN -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s 10.244.0.0/16 ! -d 224.0.0.0/4 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
-A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
-A POSTROUTING -s 10.244.0.0/16 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j RETURN
-A POSTROUTING -s 10.244.0.0/16 ! -d 224.0.0.0/4 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
-A POSTROUTING ! -s 10.244.0.0/16 -d OWN -m comment --comment "flanneld masq" -j RETURN
-A POSTROUTING ! -s 10.244.0.0/16 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
COMMIT
*filter
:FLANNEL-FWD - [0:0]
-I FORWARD 1 -m comment --comment "flanneld forward" -j FLANNEL-FWD
-A FLANNEL-FWD -s 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
-A FLANNEL-FWD -d 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
-A FORWARD -s 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
-A FORWARD -d 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
COMMIT
`

var _ = DescribeTable("a new daemon beside upstream's former rules and the policy DROP removes them and loses nothing",
	func(ctx context.Context, tool string, inUse bool) {
		n := kube.Nodes[1]
		expectNoLoss := traffic(ctx)
		subnet := leaseOf(ctx, n.Name).Spec.PodCIDR
		rules := strings.ReplaceAll(stale, "OWN", subnet)
		_, err := n.Run(ctx, "sh", "-ec", tool+"-restore --noflush <<'END'\n"+rules+"END\n")
		Expect(err).NotTo(HaveOccurred())
		setForwardPolicy(ctx, n, tool, "DROP")
		DeferCleanup(func(ctx context.Context) { setForwardPolicy(ctx, n, tool, "ACCEPT") })
		kubectl(ctx, "-n", "kube-flannel", "delete", flannelPod(ctx, n))
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())

		rules = rulesOf(ctx, n, tool)
		Expect(rules).To(ContainSubstring(":FORWARD DROP"))
		accept := `-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD`
		masquerade := `-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG`
		Expect(flannelLines(rules, "-A FORWARD")).To(Equal([]string{accept}))
		Expect(flannelLines(rules, "-A FLANNEL-FWD")).To(HaveLen(2))
		if inUse {
			Expect(flannelLines(rules, "-A POSTROUTING")).To(Equal([]string{masquerade}))
			Expect(flannelLines(rules, "-A FLANNEL-POSTRTG")).To(HaveLen(6))
		} else {
			Expect(flannelLines(rules, "-A POSTROUTING")).To(BeEmpty())
			Expect(rules).NotTo(ContainSubstring("FLANNEL-POSTRTG"))
		}
		expectNoLoss()
		expectEveryPacket(ctx)

		// With that policy gone, the accepting rules are of no use to a tool that the daemon does not use.
		setForwardPolicy(ctx, n, tool, "ACCEPT")
		if !inUse {
			Eventually(func() string { return rulesOf(ctx, n, tool) }).WithContext(ctx).ShouldNot(ContainSubstring("FLANNEL"))
		}
	},
	Entry("of iptables-nft, which the daemon uses", "iptables-nft", true, limit),
	Entry("of iptables-legacy, beside which the daemon uses the other", "iptables-legacy", false, limit),
)

// setForwardPolicy sets what one kind of iptables does with forwarded packets that no rule accepts.
func setForwardPolicy(ctx context.Context, n *cluster.Node, tool, policy string) {
	GinkgoHelper()
	_, err := n.Run(ctx, tool, "-P", "FORWARD", policy)
	Expect(err).NotTo(HaveOccurred())
}

// rulesOf returns the rules of one kind of iptables.
func rulesOf(ctx context.Context, n *cluster.Node, tool string) string {
	GinkgoHelper()
	out, err := n.Run(ctx, tool+"-save")
	Expect(err).NotTo(HaveOccurred())
	return out
}

// flannelLines returns the lines with flannel's comments that begin with a prefix.
func flannelLines(rules, prefix string) []string {
	var lines []string
	for line := range strings.Lines(rules) {
		if strings.HasPrefix(line, prefix+" ") && strings.Contains(line, `"flanneld `) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
