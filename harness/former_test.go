package harness_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
	"github.com/flanneld/flannel/harness"
)

// upstreamRules are the rules that upstream made on a node (interop 7.1), and a
// foreign rule. NET, OWN and GROUP stand for prefixes.
const upstreamRules = `*nat
:FLANNEL-POSTRTG - [0:0]
-A POSTROUTING -m comment --comment "another program" -j RETURN
-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s OWN -d NET -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s NET -d OWN -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG ! -s NET -d OWN -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s NET ! -d GROUP -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
-A FLANNEL-POSTRTG ! -s NET -d NET -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
COMMIT
*filter
:FLANNEL-FWD - [0:0]
-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
-A FLANNEL-FWD -s NET -m comment --comment "flanneld forward" -j ACCEPT
-A FLANNEL-FWD -d NET -m comment --comment "flanneld forward" -j ACCEPT
COMMIT
`

// formerOwn are the subnets that the node had under upstream.
var formerOwn = [2]string{cidr.V4: "10.5.77.0/24", cidr.V6: "fd00:10:0:77::/64"}

// filled returns upstream's rules of a family.
func filled(f cidr.Family) string {
	net, group := "10.5.0.0/16", "224.0.0.0/4"
	if f == cidr.V6 {
		net, group = "fd00:10::/48", "ff00::/8"
	}
	return strings.NewReplacer("NET", net, "OWN", formerOwn[f], "GROUP", group).Replace(upstreamRules)
}

// requireTools skips the specs if this machine lacks one of the programs.
func requireTools(tools ...string) {
	GinkgoHelper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			Skip("this machine lacks a tool: " + err.Error())
		}
	}
}

// requireTUN skips a spec where this user makes no TUN devices.
func requireTUN() {
	GinkgoHelper()
	if err := linuxtest.TryTUN(); err != nil {
		Skip("this user makes no TUN devices: " + err.Error())
	}
}

var programOf = [2]string{cidr.V4: "iptables", cidr.V6: "ip6tables"}

// Upstream made its rules with one variant of iptables. Our daemon removes all of them,
// whichever tool it uses, and no rule of another program.
var _ = Describe("upstream's rules of iptables", Ordered, func() {
	var daemon string
	BeforeAll(func(ctx context.Context) {
		requireTools("nft", "iptables-nft-restore", "iptables-legacy-restore")
		var err error
		daemon, err = harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(5*time.Minute))

	DescribeTable("disappear when our daemon runs", func(ctx context.Context, variant string, nftables bool) {
		lab := newLab(ctx, harness.Options{Nodes: 1, IPv6: true, Daemon: daemon, LeaseTTL: time.Minute,
			DaemonArgs: []string{"--ip-masq", "--iptables-forward-rules"},
			Config: fmt.Sprintf(`{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48",`+
				`"EnableNFTables":%t,"Backend":{"Type":"vxlan"}}`, nftables)})
		node := lab.Nodes[0]
		shell := func(script string) string {
			GinkgoHelper()
			out, err := node.Shell(ctx, script)
			Expect(err).NotTo(HaveOccurred())
			return out
		}
		for _, f := range cidr.Families {
			shell(programOf[f] + "-" + variant + "-restore --noflush <<'END'\n" + filled(f) + "END\n")
		}
		Expect(node.Start()).To(Succeed())
		Expect(node.WaitReady(ctx)).To(Succeed())

		for _, f := range cidr.Families {
			for kind, name := range map[string]string{"nft": "nf_tables", "legacy": "legacy"} {
				rules := shell(programOf[f] + "-" + kind + "-save")
				Expect(rules).NotTo(ContainSubstring(formerOwn[f]))
				ours := strings.Count(strings.ToLower(rules), "-j flannel")
				if strings.Contains(shell(programOf[f]+" --version"), name) && !nftables {
					Expect(ours).To(Equal(2), "jumps in %s: %s", kind, rules)
				} else {
					Expect(strings.ToLower(rules)).NotTo(ContainSubstring("flannel"))
				}
				if kind == variant {
					Expect(rules).To(ContainSubstring("another program"))
				}
			}
		}
	},
		Entry("of iptables-nft, by iptables", limit, "nft", false),
		Entry("of iptables-nft, by nftables", limit, "nft", true),
		Entry("of iptables-legacy, by iptables", limit, "legacy", false),
		Entry("of iptables-legacy, by nftables", limit, "legacy", true),
	)
})
