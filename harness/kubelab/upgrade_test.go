package kubelab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
)

// The objects that upstream left on n1: its own MAC, and that of a peer that
// has left.
const (
	keptMAC = "c6:d2:32:6f:8f:44"
	goneMAC = "c6:d2:32:6f:8f:99"
)

// upstreamDevice makes the device that upstream leaves on n1 (interop 6.2: the
// vxlan device), with a peer whose departure it has missed. %[1]s is n2's MAC.
const upstreamDevice = `
ip link add flannel.1 address ` + keptMAC + ` mtu 1450 \
	type vxlan id 1 dev eth0 local 192.168.64.1 dstport 8472 nolearning
echo 0 > /proc/sys/net/ipv6/conf/flannel.1/accept_ra
ip addr add 10.244.1.0/32 dev flannel.1
ip link set flannel.1 up
` + upstreamPeer + `
ip neigh replace 10.244.9.0 lladdr ` + goneMAC + ` nud permanent dev flannel.1
bridge fdb replace ` + goneMAC + ` dev flannel.1 dst 192.168.64.9 self permanent
ip route replace 10.244.9.0/24 via 10.244.9.0 dev flannel.1 onlink
`

// upstreamPeer makes upstream's entries for n2, also after a restart.
const upstreamPeer = `
ip neigh replace 10.244.2.0 lladdr %[1]s nud permanent dev flannel.1
bridge fdb replace %[1]s dev flannel.1 dst 192.168.64.2 self permanent
ip route replace 10.244.2.0/24 via 10.244.2.0 dev flannel.1 onlink
`

// upstreamIPTables is upstream's firewall of interop 7.1, upstreamNFTables that
// of 7.2 with its two wrong rules.
const (
	upstreamIPTables = `iptables-restore --noflush <<END
*nat
:FLANNEL-POSTRTG - [0:0]
-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s 10.244.1.0/24 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s 10.244.0.0/16 -d 10.244.1.0/24 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.1.0/24 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s 10.244.0.0/16 ! -d 224.0.0.0/4 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
-A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
COMMIT
*filter
:FLANNEL-FWD - [0:0]
-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
-A FLANNEL-FWD -s 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
-A FLANNEL-FWD -d 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
COMMIT
END
`
	upstreamNFTables = `nft -f - <<END
table ip flannel-ipv4 {
	comment "rules for flannel-ipv4"
	chain forward {
		comment "chain to accept flannel traffic"
		type filter hook forward priority filter; policy accept;
		ip saddr 10.244.0.0/16 accept
		ip daddr 10.244.0.0/16 accept
	}
	chain postrtg {
		comment "chain to manage traffic masquerading by flannel"
		type nat hook postrouting priority srcnat; policy accept;
		meta mark 0x00004000 return
		ip saddr 10.244.1.0/24 ip daddr 10.244.0.0/16 return
		ip saddr 10.244.0.0/16 ip daddr 10.244.1.0/24 return
		ip saddr != 10.244.1.0/24 ip daddr 10.244.0.0/16 return
		ip saddr 10.244.0.0/16 ip daddr != 224.0.0.0/4 masquerade fully-random
		ip saddr != 10.244.0.0/16 ip daddr 10.244.0.0/16 masquerade fully-random
	}
}
table ip6 flannel-ipv6 {
	comment "rules for flannel-ipv6"
}
END
`
)

// upstreamSubnetFile is n1's subnet file, byte by byte.
const upstreamSubnetFile = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\n" +
	"FLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"

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

var _ = Describe("A node that upstream has set up", func() {
	DescribeTable("is taken over without a lost packet, and given back",
		func(ctx context.Context, netconf, firewall string) {
			c := newCluster(ctx, 2, netconf, "--ip-masq", "--iptables-forward-rules")
			n1, n2 := c.lab.Nodes[0], c.lab.Nodes[1]
			c.registerAll(ctx)
			c.patch(ctx, "n1", map[string]any{"metadata": map[string]any{"annotations": map[string]any{
				annotations + "kube-subnet-manager": "true", annotations + "backend-type": "vxlan",
				annotations + "public-ip":    "192.168.64.1",
				annotations + "backend-data": `{"VNI":1,"VtepMAC":"` + keptMAC + `"}`}}})
			Expect(n2.Start()).To(Succeed())
			Expect(n2.WaitReady(ctx)).To(Succeed())
			var n2Data struct{ VtepMAC string }
			Expect(json.Unmarshal([]byte(c.node(ctx, "n2").Annotations[annotations+"backend-data"]), &n2Data)).To(Succeed())

			_, err := n1.Shell(ctx, fmt.Sprintf(upstreamDevice, n2Data.VtepMAC)+firewall)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.WriteFile(n1.SubnetFile(), []byte(upstreamSubnetFile), 0o644)).To(Succeed())
			for _, n := range c.lab.Nodes {
				_, err := n.AddPod(ctx)
				Expect(err).NotTo(HaveOccurred())
			}
			c.pingAll(ctx)
			kept := c.remember(ctx, n1)

			stop := pinging(ctx, c.lab.Pods()[0], c.lab.Pods()[1])
			Expect(n1.Start()).To(Succeed())
			Expect(n1.WaitReady(ctx)).To(Succeed())
			kept()
			Expect(routes(ctx, n1)).To(ConsistOf("10.244.2.0/24"), "the departed peer was pruned")
			Expect(n1.Shell(ctx, "bridge fdb show dev flannel.1; ip neigh show dev flannel.1")).NotTo(ContainSubstring(goneMAC))
			Expect(rules(ctx, n1)).To(Equal(rules(ctx, n2)))

			Expect(n1.Stop(ctx)).To(Succeed())
			kept()
			_, err = n1.Shell(ctx, fmt.Sprintf(upstreamPeer, n2Data.VtepMAC))
			Expect(err).NotTo(HaveOccurred())
			Expect(routes(ctx, n1)).To(ConsistOf("10.244.2.0/24"))
			sent, lost := stop()
			Expect(lost).NotTo(HaveOccurred(), "of %d", sent)
			Expect(sent).To(BeNumerically(">", 0))
		},
		Entry("with iptables", vxlan, upstreamIPTables, limit),
		Entry("with nftables", `{"Network":"10.244.0.0/16","EnableNFTables":true,"Backend":{"Type":"vxlan"}}`,
			upstreamNFTables, limit),
		Entry("from iptables to nftables",
			`{"Network":"10.244.0.0/16","EnableNFTables":true,"Backend":{"Type":"vxlan"}}`, upstreamIPTables, limit),
	)
})

// The same with upstream's own program.
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
