package harness_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

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
		"the kernel has no way|it has no way back there|another program's route DST"},
	{0, "ip route add DST dev eth0", "ip route del DST", "another program's route DST"},
	{1, "ip route add blackhole DST", "ip route del blackhole DST",
		"a route drops packets|another program's route DST"},
	{0, "echo 0 > /proc/sys/net/ipv4/conf/cni0/forwarding", "echo 1 > /proc/sys/net/ipv4/conf/cni0/forwarding",
		"forwards no IPv4 packet that comes in by cni0"},
	{1, "ip link set cni0 down", "ip link set cni0 up", "cni0.* is down"},
	{0, "iptables -t nat -I PREROUTING -i cni0 -d DST -j DNAT --to-destination 192.168.64.99",
		"iptables -t nat -D PREROUTING -i cni0 -d DST -j DNAT --to-destination 192.168.64.99", "changes its destination"},
	nftFault(0, "inet", "forward", -10,
		"set inet sealed s '{ type ipv4_addr; flags timeout; elements = { DST timeout 1h } }'",
		"rule inet sealed c ip daddr @s drop"),
	chainFault(0, "filter", "FORWARD", "-p tcp -j DROP"),
	chainFault(0, "filter", "FORWARD", "-m conntrack --ctstate ESTABLISHED -j DROP"),
	chainFault(1, "filter", "FORWARD", "-i cni0 -m state --state RELATED,ESTABLISHED -j REJECT"),
	nftFault(1, "inet", "forward", -10, "rule inet sealed c ct state established drop"),
	{0, "iptables -N 'A;reboot'; iptables -A 'A;reboot' -j DROP; iptables -I FORWARD -j 'A;reboot'",
		"iptables -D FORWARD -j 'A;reboot'; iptables -F 'A;reboot'; iptables -X 'A;reboot'", "chain A;reboot"},
	{0, "iptables -I FORWARD -j NFQUEUE --queue-num 7", "iptables -D FORWARD -j NFQUEUE --queue-num 7", unjudged},
	{0, "nft add table bridge sealed; nft add chain bridge sealed c '{ type filter hook input priority 0; }'; " +
		"nft add rule bridge sealed c drop", "nft delete table bridge sealed", unjudged},
	{0, "ip neigh replace 192.168.64.2 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
		"ip neigh del 192.168.64.2 dev eth0", unjudged},
	{0, "ip xfrm policy add dir out src 10.5.0.0/16 dst 10.5.0.0/16 action block", "ip xfrm policy flush",
		"an IPsec policy of another program blocks it"},
	{1, "ip xfrm policy add dir fwd src 10.5.0.0/16 dst 10.5.0.0/16 action block", "ip xfrm policy flush",
		"an IPsec policy of another program blocks it"},
	{1, "ip xfrm policy add dir in src 192.168.64.1/32 dst 192.168.64.2/32 proto udp action block", "ip xfrm policy flush",
		"an IPsec policy of another program blocks it"},
	{0, "iptables -t nat -I OUTPUT -p udp --dport 8472 -j DNAT --to-destination 192.168.64.250",
		"iptables -t nat -D OUTPUT -p udp --dport 8472 -j DNAT --to-destination 192.168.64.250",
		"changes the destination of the tunnel's packet"},
	{1, "iptables -t nat -I PREROUTING -p udp --dport 8472 -j REDIRECT --to-ports 9",
		"iptables -t nat -D PREROUTING -p udp --dport 8472 -j REDIRECT --to-ports 9",
		"changes the destination of the tunnel's packet"},
	{0, "ip route add blackhole default table 60; ip rule add pref 90 fwmark 0x9 lookup 60; " +
		"iptables -t mangle -I OUTPUT -p udp --dport 8472 -j MARK --set-mark 9",
		"iptables -t mangle -D OUTPUT -p udp --dport 8472 -j MARK --set-mark 9; ip rule del pref 90; ip route flush table 60",
		"a rule gives the tunnel's packet the mark 0x9"},
	{0, "ip route add blackhole default table 60; ip rule add pref 90 ipproto udp dport 8472 lookup 60",
		"ip rule del pref 90; ip route flush table 60", "the kernel has no way to the host 192.168.64.2"},
	{1, "ip route add blackhole default table 61; ip rule add pref 90 iif flannel.1 lookup 61",
		"ip rule del pref 90; ip route flush table 61", `a route drops packets.*"90: from all iif flannel.1 lookup 61"`},
	{0, "ip -4 -o addr show dev cni0 | while read a b c d rest; do ip addr del $d dev cni0; done",
		"ip addr replace $(echo SRC | sed 's/[0-9]*$/1/')/24 dev cni0", "cni0 has no address of this host's subnet"},
	{0, "ip route add blackhole DST table local", "ip route del blackhole DST table local", "a route drops packets"},
	{0, "ip route add unreachable 192.168.64.2", "ip route del unreachable 192.168.64.2",
		"the kernel has no way to the host 192.168.64.2"},
	{1, "echo 0 > /proc/sys/net/ipv4/conf/flannel.1/forwarding", "echo 1 > /proc/sys/net/ipv4/conf/flannel.1/forwarding",
		"forwards no IPv4 packet that comes in by flannel.1"},
	{1, "nft add table netdev sealed; " +
		"nft add chain netdev sealed c '{ type filter hook ingress device eth0 priority 0; }'; " +
		"nft add rule netdev sealed c udp dport 8472 drop", "nft delete table netdev sealed", "table netdev sealed"},
	{0, "nft add table netdev sealed; " +
		"nft add chain netdev sealed c '{ type filter hook egress device eth0 priority 0; }'; " +
		"nft add rule netdev sealed c udp dport 8472 drop", "nft delete table netdev sealed", "table netdev sealed"},
	{0, "iptables -t raw -I PREROUTING -i cni0 -j NOTRACK; iptables -I FORWARD -m conntrack --ctstate UNTRACKED -j DROP",
		"iptables -D FORWARD -m conntrack --ctstate UNTRACKED -j DROP; iptables -t raw -D PREROUTING -i cni0 -j NOTRACK",
		"--ctstate UNTRACKED -j DROP drops it"},
	{0, "iptables -t mangle -I POSTROUTING -o flannel.1 -j TTL --ttl-set 1",
		"iptables -t mangle -D POSTROUTING -o flannel.1 -j TTL --ttl-set 1", unjudged},
	nftRewrite(0, "output", "udp dport 8472 udp dport set 9999"),
	nftRewrite(1, "prerouting", "iifname flannel.1 ip daddr set 10.5.99.99"),
	{0, "iptables -I FORWARD -i cni0 -m connlimit --connlimit-above 0 -j REJECT",
		"iptables -D FORWARD -i cni0 -m connlimit --connlimit-above 0 -j REJECT", unjudged},
	{0, "tc qdisc add dev eth0 root tbf rate 1kbit burst 60 latency 1ms", "tc qdisc del dev eth0 root", unjudged},
	{1, "ip neigh replace DST lladdr 02:00:00:00:00:99 dev cni0 nud permanent", "ip neigh del DST dev cni0", unjudged},
	{1, eachPort + "ip link set $p down; done", eachPort + "ip link set $p up; done", "the ports .* of cni0 are down"},
	{1, "ip addr add 192.168.64.1/32 dev lo", "ip addr del 192.168.64.1/32 dev lo",
		"192.168.64.1 is an address of this host, on lo"},
	{0, "ip addr add DST/32 dev lo", "ip addr del DST/32 dev lo", "contains address DST/32 of lo"},
	{0, "ip rule add pref 80 to SRC prohibit", "ip rule del pref 80",
		"takes no packet from SRC that comes in by cni0|the kernel has no way to SRC"},
	{1, "iptables -t nat -I PREROUTING -i flannel.1 -j DNAT --to-destination 192.0.2.9",
		"iptables -t nat -D PREROUTING -i flannel.1 -j DNAT --to-destination 192.0.2.9",
		"changes its destination to 192.0.2.9"},
}

// nftRewrite is a fault of a rule of nft that rewrites packets, whose end is not known then.
func nftRewrite(on int, hook, rule string) fault {
	f := nftFault(on, "ip", hook, -50, "rule ip sealed c "+rule)
	f.cause = unjudged
	return f
}

// eachPort begins a loop over the ports of the pods' bridge.
const eachPort = "for p in $(ip -o link show master cni0 | sed 's/^[0-9]*: //; s/[@:].*//'); do "

// unjudged matches no finding: the tools can only say that something cannot be judged.
const unjudged = "^$"

var _ = Describe("flannelctl check with sealed faults", func() {
	It("names the cause or says that it cannot, and never a wrong one", func(ctx context.Context) {
		g := newGame(ctx)
		causes, _ := g.told(ctx, pathTopics...)
		Expect(causes).To(BeEmpty(), "on healthy nodes")

		var missed, wrong []string
		remedies := 0
		for _, f := range sealed {
			By("sealed: " + f.harm)
			g.do(ctx, f, f.harm)
			g.breaks(ctx, f)
			causes, unsure := g.told(ctx, pathTopics...)
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
			causes, unsure := g.told(ctx, pathTopics...)
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
