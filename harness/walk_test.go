package harness_test

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/drivers/linux/firewall"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/tools/daemon"
	"github.com/flanneld/flannel/tools/trace"
)

// traced follows a packet through a node's host, as flannelctl trace does.
func traced(ctx context.Context, n *harness.Node, known trace.Known, src, dst netip.Addr, size int) (r *trace.Result) {
	GinkgoHelper()
	withDrivers(ctx, n, func(host *linux.Driver, filter *firewall.Firewall) {
		k := &trace.Linux{Netlink: n.Netlink(), Host: host, Firewall: filter, Run: programsOf(n)}
		var err error
		r, err = trace.Walk(ctx, k, trace.Flow{Src: src, Dst: dst, Size: size}, known)
		Expect(err).NotTo(HaveOccurred())
	})
	return r
}

// programsOf returns what runs a program on a node's host.
func programsOf(n *harness.Node) func(ctx context.Context, argv ...string) ([]byte, error) {
	return func(ctx context.Context, argv ...string) ([]byte, error) {
		out, err := n.Shell(ctx, strings.Join(argv, " "))
		return []byte(out), err
	}
}

// ruled follows a packet of TCP through a node's host, with the rules of all programs there.
func ruled(ctx context.Context, n *harness.Node, src, dst netip.Addr, port uint16) (r *trace.Result) {
	GinkgoHelper()
	known := knownTo(ctx, n)
	withDrivers(ctx, n, func(host *linux.Driver, filter *firewall.Firewall) {
		k := &trace.Linux{Netlink: n.Netlink(), Host: host, Firewall: filter, Run: programsOf(n)}
		var err error
		r, err = trace.Walk(ctx, k, trace.Flow{Src: src, Dst: dst, Size: 84, Proto: "tcp", Port: port}, known)
		Expect(err).NotTo(HaveOccurred())
	})
	return r
}

// expectRulesHonoured drops one port on the host that forwards packets, and then the tunnel's packets on the host to
// which they go. A trace must find both, as packets do.
func expectRulesHonoured(ctx context.Context, n1, n2 *harness.Node, src, dst netip.Addr) {
	GinkgoHelper()
	By("rules about one port")
	ends := func(r *trace.Result) []string { return []string{r.Reason, r.Hops[len(r.Hops)-1].Step} }
	_, err := n1.Shell(ctx, "nft add table inet strict; nft add chain inet strict forward "+
		"'{ type filter hook forward priority 10; }'; nft add rule inet strict forward tcp dport 80-90 drop")
	Expect(err).NotTo(HaveOccurred())
	Expect(ends(ruled(ctx, n1, src, dst, 85))).To(Equal([]string{"fw_drop", "filter"}))
	Expect(ruled(ctx, n1, src, dst, 91).Trouble()).To(BeFalse())
	_, err = n1.Shell(ctx, "nft delete table inet strict; iptables -I FORWARD -p tcp --dport 80 -j REJECT")
	Expect(err).NotTo(HaveOccurred())
	Expect(ends(ruled(ctx, n1, src, dst, 80))).To(Equal([]string{"fw_drop", "filter"}))
	Expect(ruled(ctx, n1, src, dst, 85).Trouble()).To(BeFalse())

	By("a rule about the tunnel")
	Expect(ruled(ctx, n2, src, dst, 80).Arrived).To(BeTrue())
	_, err = n2.Shell(ctx, "iptables -I INPUT -p udp --dport 8472 -j DROP")
	Expect(err).NotTo(HaveOccurred())
	Expect(ends(ruled(ctx, n2, src, dst, 80))).To(Equal([]string{"fw_drop", "arrive"}))
}

// knownTo returns what a node's daemon and its subnet file tell.
func knownTo(ctx context.Context, n *harness.Node) trace.Known {
	GinkgoHelper()
	text, err := os.ReadFile(n.SubnetFile())
	Expect(err).NotTo(HaveOccurred())
	peers, err := daemon.Local(n.SubnetFile()).Peers(ctx)
	Expect(err).NotTo(HaveOccurred())
	return trace.Known{Networks: subnetfile.Networks(text), Peers: peers.Peers}
}

// obstacles stop a packet from n1's pod to n2's while n1's daemon does not run. Reason and
// step are what trace must report. Undo repairs what a restart of the daemon does not.
var obstacles = []struct{ what, harm, undo, reason, step string }{
	{"the device is down", "ip link set flannel.1 down", "", "no_route", "route"},
	{"the device is gone", "ip link del flannel.1", "", "no_route", "route"},
	{"the route is gone", "ip route flush root 10.5.0.0/16 dev flannel.1", "", "no_route", "route"},
	{"a route drops packets", "ip route flush root 10.5.0.0/16 dev flannel.1; ip route add blackhole 10.5.0.0/16",
		"ip route del blackhole 10.5.0.0/16", "blackhole", "route"},
	{"a route prohibits packets", "ip route flush root 10.5.0.0/16 dev flannel.1; ip route add prohibit 10.5.0.0/16",
		"ip route del prohibit 10.5.0.0/16", "no_route", "route"},
	{"the bridge of the pods is down", "ip link set cni0 down", "ip link set cni0 up", "link_down", "arrive"},
	{"the neighbour is gone", "ip neigh flush dev flannel.1 nud permanent", "", "neigh_missing", "neighbour"},
	{"the forwarding entry is gone", "bridge fdb show dev flannel.1 | grep dst | while read mac rest; do " +
		"bridge fdb del $mac dev flannel.1; done", "", "fdb_missing", "tunnel"},
	{"the host forwards nothing", "echo 0 > /proc/sys/net/ipv4/ip_forward", "echo 1 > /proc/sys/net/ipv4/ip_forward",
		"no_forwarding", "forward"},
	{"a filter drops everything", "nft add table inet strict; nft add chain inet strict forward " +
		"'{ type filter hook forward priority 10; policy drop; }'", "nft delete table inet strict", "fw_drop", "filter"},
	{"a rule in raw PREROUTING drops it", "nft add table ip early; nft add chain ip early pre " +
		"'{ type filter hook prerouting priority -300; }'; nft add rule ip early pre iifname cni0 ip daddr 10.5.0.0/16 drop",
		"nft delete table ip early", "fw_drop", "prerouting"},
	{"a rule chooses another table", "ip link add ts0 type veth peer name ts1; ip link set ts0 up; ip link set ts1 up; " +
		"ip route add 10.5.0.0/16 dev ts0 table 52; ip rule add pref 5270 lookup 52",
		"ip rule del pref 5270; ip link del ts0", "no_route", "route"},
	{"the uplink is down", "ip link set eth0 down", "ip link set eth0 up; ip route add default via 192.168.64.253",
		"no_route", "underlay"},
	{"the peer's host does not answer", // nor ask, from which the kernel would learn
		"ip link set eth0 arp off; ip neigh replace 192.168.64.2 dev eth0 nud failed",
		"ip link set eth0 arp on; ip neigh flush dev eth0", "neigh_failed", "underlay"},
}

var _ = Describe("flannelctl trace", func() {
	It("follows a packet to where it ends", func(ctx context.Context) {
		requireTools("nft", "iptables")
		program, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		lab := newLab(ctx, harness.Options{Nodes: 2, Daemon: program, LeaseTTL: time.Hour,
			Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`})
		for _, n := range lab.Nodes {
			Expect(n.Start()).To(Succeed())
			Expect(n.WaitReady(ctx)).To(Succeed())
			_, err := n.AddPod(ctx)
			Expect(err).NotTo(HaveOccurred())
		}
		n1, n2 := lab.Nodes[0], lab.Nodes[1]
		from := n1.Pods[0]
		src, dst := from.Addr(cidr.V4), n2.Pods[0].Addr(cidr.V4)
		ping := func() error {
			_, err := from.Ping(ctx, dst, harness.PingOptions{})
			return err
		}
		Eventually(ping).WithContext(ctx).Should(Succeed())
		known := knownTo(ctx, n1)

		sent := traced(ctx, n1, known, src, dst, 1450)
		Expect(sent.Trouble()).To(BeFalse(), "%+v", sent)
		Expect(sent.Next).To(Equal(n2.Underlay(cidr.V4).Addr()))
		received := traced(ctx, n2, knownTo(ctx, n2), src, dst, 1450)
		Expect(received.Arrived).To(BeTrue(), "%+v", received)
		Expect(traced(ctx, n1, known, src, dst, 1451).Reason).To(Equal("too_big"))

		for _, o := range obstacles {
			By(o.what)
			Expect(n1.Stop(ctx)).To(Succeed())
			_, err := n1.Shell(ctx, o.harm)
			Expect(err).NotTo(HaveOccurred())
			r := traced(ctx, n1, known, src, dst, 84)
			for tries := 0; o.reason == "neigh_failed" && r.Reason == "" && tries < 5; tries++ {
				_, err := n1.Shell(ctx, o.harm) // the kernel sweeps failed neighbours away twice a minute
				Expect(err).NotTo(HaveOccurred())
				r = traced(ctx, n1, known, src, dst, 84)
			}
			Expect([]string{r.Reason, r.Hops[len(r.Hops)-1].Step}).To(Equal([]string{o.reason, o.step}), "%+v", r)
			Expect(r.Remedy).NotTo(BeEmpty())
			if o.reason != "neigh_failed" { // the kernel asks again, and this peer answers
				Expect(ping()).NotTo(Succeed())
			}
			_, err = n1.Shell(ctx, o.undo)
			Expect(err).NotTo(HaveOccurred())
			Expect(n1.Start()).To(Succeed())
			Expect(n1.WaitReady(ctx)).To(Succeed())
			Expect(traced(ctx, n1, known, src, dst, 84).Trouble()).To(BeFalse(), "after the repair")
		}
		expectRulesHonoured(ctx, n1, n2, src, dst)
	}, limit)
})
