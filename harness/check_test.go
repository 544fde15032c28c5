package harness_test

import (
	"context"
	"fmt"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/drivers/linux/firewall"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/tools/check"
)

// checked returns the findings about a node, with the topics that matter here.
func checked(ctx context.Context, n *harness.Node, config string) []check.Finding {
	GinkgoHelper()
	var facts *check.Facts
	withDrivers(ctx, n, func(host *linux.Driver, filter *firewall.Firewall) {
		Expect(n.Do(func() error {
			facts = check.Gather(ctx, check.Sources{
				Host: host, Firewall: filter, Config: []byte(config), SubnetFile: n.SubnetFile(), CNIConf: "/nowhere",
				Daemons: func() ([]int, error) { return daemonOf(n) },
			})
			return nil
		})).To(Succeed())
	})
	return facts.Findings()
}

// find returns the findings of one topic that are not ok.
func find(findings []check.Finding, topic string) []check.Finding {
	var found []check.Finding
	for _, f := range findings {
		if f.Topic == topic && f.Level != check.OK {
			found = append(found, f)
		}
	}
	return found
}

// troubles are the rows of docs/troubleshooting.md that flannelctl check answers: a fault
// of a healthy node, and the finding about it.
var troubles = []struct {
	row, topic   string
	harm         func(ctx context.Context, n *harness.Node) error
	cause, first string // parts of the finding: the cause, and the beginning of the remedy
}{
	{"subnet.env is missing", "daemon", func(ctx context.Context, n *harness.Node) error {
		_, err := n.Shell(ctx, "ip route del default")
		if err == nil {
			err = n.Stop(ctx)
		}
		if err == nil {
			_, err = n.Shell(ctx, "rm "+n.SubnetFile())
		}
		if err == nil {
			err = n.Start()
		}
		return err
	}, "has not written", "flannelctl status"},
	{"pods on two nodes do not reach each other", "forwarding", func(_ context.Context, n *harness.Node) error {
		return n.Sysctl("ipv4/ip_forward", "0")
	}, "the host forwards no IPv4 packets", "echo net.ipv4.ip_forward=1"},
	{"DNS times out", "br_netfilter", func(_ context.Context, n *harness.Node) error {
		return n.Sysctl("bridge/bridge-nf-call-iptables", "0")
	}, "net.bridge.bridge-nf-call-iptables is 0", "echo net.bridge.bridge-nf-call-iptables=1"},
	{"wrong interface", "interface", func(ctx context.Context, n *harness.Node) error {
		_, err := n.Shell(ctx, "ip link add eth1 type veth peer name far; ip addr add 172.16.0.1/24 dev eth1; "+
			"ip link set eth1 up")
		return err
	}, "if the other hosts reach this one by eth1", "flannelctl leases list"},
	{"no route to host after a reboot", "firewall", func(ctx context.Context, n *harness.Node) error {
		_, err := n.Shell(ctx, "nft add table inet strict; "+
			"nft add chain inet strict forward '{ type filter hook forward priority 10; policy drop; }'")
		return err
	}, "dropped by policy DROP of chain forward in table inet strict", "nft insert rule inet strict forward ip saddr"},
	{"address in use", "port", func(ctx context.Context, n *harness.Node) error {
		if err := n.Stop(ctx); err != nil {
			return err
		}
		_, err := n.Shell(ctx, "ip link del flannel.1")
		if err == nil {
			err = n.TakePort(8472)
		}
		return err
	}, "UDP port 8472, which the backend vxlan needs, is in use", "ss -ulpn"},
	{"cni0 has another address", "bridge", func(ctx context.Context, n *harness.Node) error {
		_, err := n.Shell(ctx, "ip link add cni0 type bridge; ip addr add 10.5.0.1/24 dev cni0")
		return err
	}, "cni0 has the address 10.5.0.1/24", "ip link delete cni0"},
	{"masquerade is missing", "masquerade", func(ctx context.Context, n *harness.Node) error {
		if err := n.Stop(ctx); err != nil {
			return err
		}
		_, err := n.Shell(ctx, "iptables -t nat -F")
		return err
	}, "flannel's masquerade rules for IPv4 are missing", "systemctl restart flanneld"},
	{"addresses of the host in the network", "overlap", func(ctx context.Context, n *harness.Node) error {
		_, err := n.Shell(ctx, "ip addr add 10.5.0.1/24 dev eth0")
		return err
	}, "10.5.0.1/24 of eth0", "flannelctl config set"},
}

var _ = Describe("flannelctl check", Ordered, func() {
	const config = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`
	var daemon string
	BeforeAll(func(ctx context.Context) {
		requireTools("nft", "iptables")
		var err error
		daemon, err = harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(5*time.Minute))

	for _, t := range troubles {
		It("names cause and remedy: "+t.row, func(ctx context.Context) {
			manual, err := os.ReadFile("../docs/troubleshooting.md")
			Expect(err).NotTo(HaveOccurred())
			Expect(string(manual)).To(ContainSubstring(t.row))
			lab := newLab(ctx, harness.Options{Nodes: 1, Daemon: daemon, LeaseTTL: time.Minute, Config: config,
				DaemonArgs: []string{"--ip-masq", "--iptables-forward-rules"}})
			node := lab.Nodes[0]
			Expect(node.Start()).To(Succeed())
			Expect(node.WaitReady(ctx)).To(Succeed())
			Expect(find(checked(ctx, node, config), t.topic)).To(BeEmpty(), "on a healthy node")
			Expect(t.harm(ctx, node)).To(Succeed())
			Eventually(ctx, func() string { return fmt.Sprint(find(checked(ctx, node, config), t.topic)) }).
				Should(And(ContainSubstring(t.cause), ContainSubstring(t.first)))
		}, limit)
	}
})
