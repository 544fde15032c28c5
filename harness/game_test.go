package harness_test

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
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

// conflicts reports whether two faults have an object with one name on one node.
func (f fault) conflicts(o fault) bool {
	names := []string{" sealed", " xfrm ", "-P FORWARD", "rp_filter"}
	return f.on == o.on && slices.ContainsFunc(names, func(name string) bool {
		return strings.Contains(f.harm, name) && strings.Contains(o.harm, name)
	})
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

// game is a lab in which faults are drawn.
type game struct {
	nodes    []*harness.Node
	src, dst string
	config   string
	ping     func() error // from pod to pod, and a connection of TCP
}

// newGame starts two nodes with a pod each, and waits until packets pass.
func newGame(ctx context.Context, args ...string) *game {
	GinkgoHelper()
	requireTools("nft", "iptables")
	program, err := harness.BuildDaemon(ctx)
	Expect(err).NotTo(HaveOccurred())
	g := &game{config: `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`}
	lab := newLab(ctx, harness.Options{Nodes: 2, Daemon: program, LeaseTTL: time.Hour, Config: g.config,
		DaemonArgs: append([]string{"--ip-masq", "--iptables-forward-rules", "--probe-interval=0"}, args...)})
	g.nodes = lab.Nodes
	for _, n := range lab.Nodes {
		Expect(n.Start()).To(Succeed())
		Expect(n.WaitReady(ctx)).To(Succeed())
		_, err := n.AddPod(ctx)
		Expect(err).NotTo(HaveOccurred())
		// A tunnel's packets are one connection to conntrack, which keeps what a rule of NAT has decided.
		_, err = n.Shell(ctx, "echo 1 > /proc/sys/net/netfilter/nf_conntrack_udp_timeout; "+
			"echo 1 > /proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream")
		Expect(err).NotTo(HaveOccurred())
	}
	from, to := g.nodes[0].Pods[0], g.nodes[1].Pods[0].Addr(cidr.V4)
	g.src, g.dst = from.Addr(cidr.V4).String(), to.String()
	l, err := g.nodes[1].Pods[0].Listen(netip.MustParseAddrPort("0.0.0.0:80"))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(l.Close)
	g.ping = func() error {
		if _, err := from.Ping(ctx, to, harness.PingOptions{Timeout: time.Second}); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		conn, err := from.Dial(ctx, "tcp", netip.AddrPortFrom(to, 80).String())
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	Eventually(ctx, g.ping).Should(Succeed())
	return g
}

// breaks waits until packets stop. A rule of NAT has no effect on connections that conntrack knows.
func (g *game) breaks(ctx context.Context, f fault) {
	GinkgoHelper()
	const forgotten = 1500 * time.Millisecond // by conntrack
	Eventually(ctx, g.ping).WithPolling(forgotten).ShouldNot(Succeed(), f.harm)
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

// pathTopics are those of findings about the ways of packets.
var pathTopics = []string{"path", "firewall", "port", "forwarding", "interface", "overlap", "bridge"}

// told returns the findings of both nodes about some topics, or all, that are not ok, and whether something cannot be
// judged.
func (g *game) told(ctx context.Context, topics ...string) (causes []cause, unsure bool) {
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
		for _, f := range facts.Findings() {
			if f.Level != check.OK && (len(topics) == 0 || slices.Contains(topics, f.Topic)) {
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
var changes = regexp.MustCompile(
	`^(nft insert|ip6?tables|sysctl -w|ip route del|ip link set|ip addr add|firewall-cmd|echo) `)

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
