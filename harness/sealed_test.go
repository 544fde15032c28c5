package harness_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/drivers/linux/firewall"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/tools/check"
	"github.com/flanneld/flannel/tools/daemon"
	"github.com/flanneld/flannel/tools/trace"
)

// fault stops the packets of a pod of the first node to one of the second, whose addresses stand for SRC and DST.
type fault struct {
	on         int // the node: 0 or 1
	harm, undo string
	cause      string // what a finding must name, as a regular expression
}

// chainFault is a fault of one rule of iptables.
func chainFault(on int, table, chain, spec string) fault {
	program := "iptables -t " + table
	return fault{on, program + " -I " + chain + " " + spec, program + " -D " + chain + " " + spec,
		"chain " + chain + ` \(iptables-\S+, table ` + table + `\)`}
}

// nftFault is a fault of a table of nft, of a family and with further lines.
func nftFault(on int, family, hook string, priority int, lines ...string) fault {
	harm := fmt.Sprintf("nft add table %s sealed; nft add chain %s sealed c '{ type filter hook %s priority %d; }'",
		family, family, hook, priority)
	for _, line := range lines {
		harm += "; nft add " + line
	}
	return fault{on, harm, "nft delete table " + family + " sealed", `chain c \(nftables, table ` + family + " sealed"}
}

// sealed are kinds of faults that flanneld does not repair, at every place on the way of a packet.
var sealed = []fault{
	chainFault(0, "raw", "PREROUTING", "-i cni0 -j DROP"),
	chainFault(0, "raw", "PREROUTING", "-s SRC -m length --length 0:65535 -j DROP"),
	chainFault(0, "mangle", "PREROUTING", "-s SRC -j DROP"),
	chainFault(0, "mangle", "PREROUTING", "-p icmp -m addrtype ! --dst-type LOCAL -j DROP"),
	chainFault(0, "mangle", "FORWARD", "-d DST -j DROP"),
	chainFault(0, "filter", "FORWARD", "-i cni0 -o flannel.1 -j REJECT"),
	chainFault(0, "filter", "FORWARD", "-m conntrack --ctstate NEW -j DROP"),
	chainFault(0, "filter", "FORWARD", "-m mark ! --mark 0x1/0x1 -j DROP"),
	chainFault(0, "filter", "FORWARD", "-m iprange --dst-range 10.5.0.0-10.5.255.255 -j DROP"),
	{0, "iptables -N HARDEN; iptables -A HARDEN -j REJECT; iptables -I FORWARD -j HARDEN",
		"iptables -D FORWARD -j HARDEN; iptables -F HARDEN; iptables -X HARDEN", "chain HARDEN"},
	{0, "iptables -N GONE; iptables -A GONE -j DROP; iptables -I FORWARD -g GONE",
		"iptables -D FORWARD -g GONE; iptables -F GONE; iptables -X GONE", "chain GONE"},
	chainFault(0, "mangle", "POSTROUTING", "-o flannel.1 -j DROP"),
	chainFault(0, "filter", "OUTPUT", "-p udp --dport 8472 -j DROP"),
	chainFault(0, "mangle", "OUTPUT", "-p udp --dport 8472 -j DROP"),
	chainFault(0, "raw", "OUTPUT", "-p udp -o eth0 -j DROP"),
	chainFault(0, "mangle", "POSTROUTING", "-p udp --dport 8472 -o eth0 -j DROP"),
	chainFault(1, "raw", "PREROUTING", "-d DST ! -i cni0 -j DROP"),
	chainFault(1, "raw", "PREROUTING", "-i eth0 -p udp --dport 8472 -j DROP"),
	chainFault(1, "mangle", "PREROUTING", "-i flannel.1 -j DROP"),
	chainFault(1, "mangle", "INPUT", "-p udp --dport 8472 -j DROP"),
	chainFault(1, "filter", "INPUT", "-p udp --dport 8000:9000 -j REJECT"),
	chainFault(1, "filter", "INPUT", "! -i lo -j DROP"),
	chainFault(1, "filter", "FORWARD", "-i flannel.1 -j DROP"),
	chainFault(1, "mangle", "POSTROUTING", "-o cni+ -d DST -j DROP"),
	nftFault(0, "inet", "prerouting", -400, "rule inet sealed c iifname cni0 drop"),
	nftFault(0, "ip", "prerouting", -50, "rule ip sealed c ip daddr DST drop"),
	nftFault(0, "inet", "forward", 300, "rule inet sealed c oifname flannel.1 drop"),
	nftFault(0, "inet", "forward", -10,
		"set inet sealed s '{ type ipv4_addr; flags interval; elements = { 10.5.0.0/16 }; }'",
		"rule inet sealed c ip daddr @s drop"),
	nftFault(0, "inet", "forward", -10, "rule inet sealed c iifname vmap '{ lo : accept, cni0 : drop }'"),
	nftFault(0, "inet", "forward", -10, "rule inet sealed c ip saddr . ip daddr vmap '{ SRC . DST : drop }'"),
	nftFault(0, "inet", "forward", -10, "rule inet sealed c meta mark set 0x10",
		"rule inet sealed c 'meta mark and 0xff == 0x10' drop"),
	nftFault(0, "inet", "postrouting", 200, "rule inet sealed c ip daddr DST drop"),
	nftFault(0, "inet", "output", 0, "rule inet sealed c udp dport 8472 drop"),
	nftFault(1, "inet", "input", 10, "rule inet sealed c meta l4proto udp udp dport 8472 counter drop"),
	nftFault(1, "inet", "prerouting", 0, "rule inet sealed c fib daddr type local udp dport 8472 drop"),
	nftFault(1, "ip", "forward", 5, "rule ip sealed c ct state new,invalid drop"),
	{0, "nft add table inet sealed; nft add chain inet sealed c '{ type filter hook forward priority 10; policy drop; }'",
		"nft delete table inet sealed", "policy of chain c"},
	{0, "ip link add ts0 type veth peer name ts1; ip link set ts0 up; ip link set ts1 up; " +
		"ip route add 10.5.0.0/16 dev ts0 table 52; ip rule add pref 5270 lookup 52",
		"ip rule del pref 5270; ip link del ts0", `ip rule "5270:|table 52`},
	{0, "ip link add ts0 type veth peer name ts1; ip link set ts0 up; ip link set ts1 up; " +
		"ip route add default dev ts0 table 53; ip rule add pref 5270 from SRC lookup 53",
		"ip rule del pref 5270; ip link del ts0", `ip rule "5270:|table 53`},
	{0, "ip link add ts0 type veth peer name ts1; ip link set ts0 up; ip link set ts1 up; " +
		"ip route add default dev ts0 table 54; ip rule add pref 5270 fwmark 0x7 lookup 54; " +
		"iptables -t mangle -I PREROUTING -i cni0 -j MARK --set-mark 0x7",
		"iptables -t mangle -D PREROUTING -i cni0 -j MARK --set-mark 0x7; ip rule del pref 5270; ip link del ts0",
		`ip rule "5270:|table 54`},
	{0, "ip route add blackhole 10.5.0.0/16 table 55; ip rule add pref 5270 lookup 55",
		"ip rule del pref 5270; ip route flush table 55", "a route drops packets"},
	{0, "ip rule add pref 5270 to 10.5.0.0/16 prohibit", "ip rule del pref 5270", "the kernel has no way"},
	{0, "ip route add blackhole DST", "ip route del blackhole DST",
		"a route drops packets|another program's route DST"},
	{0, "ip route add unreachable DST", "ip route del unreachable DST",
		"the kernel has no way|another program's route DST"},
	{0, "ip route add DST dev eth0", "ip route del DST", "another program's route DST"},
	{1, "ip route add blackhole DST", "ip route del blackhole DST",
		"a route drops packets|another program's route DST"},
	{0, "echo 0 > /proc/sys/net/ipv4/conf/cni0/forwarding", "echo 1 > /proc/sys/net/ipv4/conf/cni0/forwarding",
		"forwards no IPv4 packet that comes in by cni0"},
	{1, "ip link set cni0 down", "ip link set cni0 up", "cni0.* is down"},
	{0, "iptables -t nat -I PREROUTING -i cni0 -d DST -j DNAT --to-destination 192.168.64.99",
		"iptables -t nat -D PREROUTING -i cni0 -d DST -j DNAT --to-destination 192.168.64.99", "changes its destination"},
}

// harmless are foreign rules and settings with which packets pass: no tool may call them a fault.
var harmless = []fault{
	{0, "iptables -P FORWARD DROP", "iptables -P FORWARD ACCEPT", ""},
	chainFault(0, "raw", "PREROUTING", "-d 172.17.0.2/32 ! -i docker0 -j DROP"),
	chainFault(0, "filter", "FORWARD", "-m conntrack --ctstate INVALID -j DROP"),
	chainFault(0, "filter", "FORWARD", "-p tcp -m addrtype --dst-type LOCAL --dport 30000 -j REJECT"),
	chainFault(1, "filter", "INPUT", "-p udp --dport 8473 -j DROP"),
	nftFault(0, "inet", "forward", 5, "rule inet sealed c ct state vmap '{ invalid : drop, new : accept }'"),
	nftFault(1, "inet", "prerouting", -300, "rule inet sealed c tcp dport 22 drop"),
	{0, "ip route add default via 192.168.64.2 table 77; ip rule add pref 9000 from 172.17.0.0/16 lookup 77",
		"ip rule del pref 9000; ip route flush table 77", ""},
	{0, "iptables -t nat -I POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE",
		"iptables -t nat -D POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE", ""},
	{0, "ip link add eth1 type veth peer name far1; ip addr add 172.30.0.1/24 dev eth1; ip link set eth1 up",
		"ip link del eth1", ""},
}

// game is a lab in which faults are drawn.
type game struct {
	nodes    []*harness.Node
	src, dst string
	config   string
	ping     func() error
}

// do runs a command of a fault.
func (g *game) do(ctx context.Context, f fault, command string) {
	GinkgoHelper()
	_, err := g.nodes[f.on].Shell(ctx, g.filled(command))
	Expect(err).NotTo(HaveOccurred(), command)
}

func (g *game) filled(text string) string {
	return strings.NewReplacer("SRC", g.src, "DST", g.dst).Replace(text)
}

// cause is a finding of a node that is not ok.
type cause struct {
	check.Finding
	node *harness.Node
}

// told returns the findings of both nodes that are not ok, and whether something cannot be judged.
func (g *game) told(ctx context.Context) (causes []cause, unsure bool) {
	GinkgoHelper()
	for _, n := range g.nodes {
		var facts *check.Facts
		withDrivers(ctx, n, func(host *linux.Driver, filter *firewall.Firewall) {
			kernel := &trace.Linux{Netlink: n.Netlink(), Host: host, Firewall: filter, Run: programsOf(n)}
			Expect(n.Do(func() error {
				facts = check.Gather(ctx, check.Sources{
					Host: host, Firewall: filter, Kernel: kernel, Config: []byte(g.config), SubnetFile: n.SubnetFile(),
					CNIConf: "/nowhere", Daemons: func() ([]int, error) { return daemonOf(n) },
					Daemon: func(ctx context.Context) (node.Status, []node.Peer, error) {
						client := daemon.Local(n.SubnetFile())
						peers, err := client.Peers(ctx)
						if err != nil {
							return node.Status{}, nil, err
						}
						status, err := client.Status(ctx)
						return status, peers.Peers, err
					},
				})
				return nil
			})).To(Succeed())
		})
		for _, p := range facts.Paths {
			unsure = unsure || len(p.Result.Unsure) > 0
		}
		topics := []string{"path", "firewall", "port", "forwarding", "interface", "overlap", "bridge"}
		for _, f := range facts.Findings() {
			if f.Level != check.OK && strings.Contains(strings.Join(topics, " "), f.Topic) {
				causes = append(causes, cause{f, n})
			}
		}
	}
	return causes, unsure
}

// names returns the findings that name one of some faults, and the texts of those that name none.
func (g *game) names(causes []cause, faults ...fault) (named []cause, others []string) {
	for _, c := range causes {
		fits := false
		for _, f := range faults {
			fits = fits || regexp.MustCompile(g.filled(f.cause)).MatchString(c.Text)
		}
		if fits {
			named = append(named, c)
		} else {
			others = append(others, c.Text)
		}
	}
	return named, others
}

// changes matches the remedies that change something. The others say where to look.
var changes = regexp.MustCompile(`^(nft insert|ip6?tables|sysctl -w|ip route del|ip link set|firewall-cmd|echo) `)

// healed runs the remedies of findings that are commands, and demands that packets pass then. It returns the number of
// commands, and what takes them back.
func (g *game) healed(ctx context.Context, f fault, named []cause) (commands int, undo func()) {
	GinkgoHelper()
	var back []func()
	for _, c := range named {
		if !changes.MatchString(c.Remedy) {
			continue
		}
		commands++
		_, err := c.node.Shell(ctx, c.Remedy)
		Expect(err).NotTo(HaveOccurred(), "the remedy of "+f.harm+": "+c.Remedy)
		if strings.HasPrefix(c.Remedy, "ip") {
			inverse := strings.ReplaceAll(c.Remedy, " -I ", " -D ")
			back = append(back, func() { _, _ = c.node.Shell(ctx, inverse) }) // a route or link has none
		}
	}
	if commands > 0 {
		Eventually(ctx, g.ping).Should(Succeed(), "after the remedy of %s: %v", f.harm, named)
	}
	return commands, func() {
		for _, undo := range back {
			undo()
		}
	}
}

var _ = Describe("flannelctl check with sealed faults", func() {
	It("names the cause or says that it cannot, and never a wrong one", func(ctx context.Context) {
		requireTools("nft", "iptables")
		program, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		g := &game{config: `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`}
		lab := newLab(ctx, harness.Options{Nodes: 2, Daemon: program, LeaseTTL: time.Hour, Config: g.config,
			DaemonArgs: []string{"--ip-masq", "--iptables-forward-rules", "--probe-interval=0"}})
		g.nodes = lab.Nodes
		for _, n := range lab.Nodes {
			Expect(n.Start()).To(Succeed())
			Expect(n.WaitReady(ctx)).To(Succeed())
			_, err := n.AddPod(ctx)
			Expect(err).NotTo(HaveOccurred())
		}
		from, to := g.nodes[0].Pods[0], g.nodes[1].Pods[0].Addr(cidr.V4)
		g.src, g.dst = from.Addr(cidr.V4).String(), to.String()
		g.ping = func() error {
			_, err := from.Ping(ctx, to, harness.PingOptions{Timeout: time.Second})
			return err
		}
		Eventually(ctx, g.ping).Should(Succeed())
		causes, _ := g.told(ctx)
		Expect(causes).To(BeEmpty(), "on healthy nodes")

		for _, f := range harmless {
			By("harmless: " + f.harm)
			g.do(ctx, f, f.harm)
			Expect(g.ping()).To(Succeed(), f.harm)
			causes, _ := g.told(ctx)
			Expect(causes).To(BeEmpty(), f.harm)
			g.do(ctx, f, f.undo)
		}

		var missed, wrong []string
		remedies := 0
		for _, f := range sealed {
			By("sealed: " + f.harm)
			g.do(ctx, f, f.harm)
			Expect(g.ping()).NotTo(Succeed(), f.harm)
			causes, unsure := g.told(ctx)
			named, others := g.names(causes, f)
			if len(others) > 0 {
				wrong = append(wrong, f.harm+": "+strings.Join(others, "; "))
			}
			if len(named) == 0 && !unsure {
				missed = append(missed, f.harm)
			}
			commands, back := g.healed(ctx, f, named)
			remedies += commands
			_, err := g.nodes[f.on].Shell(ctx, g.filled(f.undo))
			Expect(err == nil || commands > 0).To(BeTrue(), f.undo) // a remedy may have undone it
			back()
			Eventually(ctx, g.ping).Should(Succeed(), f.undo)
		}
		Expect(remedies).To(BeNumerically(">", len(sealed)/2))
		Expect(wrong).To(BeEmpty())
		Expect(len(missed)).To(BeNumerically("<=", len(sealed)/10), "%q", missed)

		draw := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0))
		missed = nil
		const pairs = 10
		for range pairs {
			first, second := sealed[draw.IntN(len(sealed))], sealed[draw.IntN(len(sealed))]
			if first.on == second.on { // they may name the same table
				second = sealed[(draw.IntN(16))]
				first = sealed[16+draw.IntN(8)]
			}
			By("a pair: " + first.harm + " and " + second.harm)
			g.do(ctx, first, first.harm)
			g.do(ctx, second, second.harm)
			causes, unsure := g.told(ctx)
			named, others := g.names(causes, first, second)
			Expect(others).To(BeEmpty(), "wrong causes of: "+first.harm+" and "+second.harm)
			if len(named) == 0 && !unsure {
				missed = append(missed, first.harm+" and "+second.harm)
			}
			g.do(ctx, second, second.undo)
			g.do(ctx, first, first.undo)
		}
		Expect(len(missed)).To(BeNumerically("<=", pairs/10), "%q", missed)
	}, NodeTimeout(10*time.Minute))
})
