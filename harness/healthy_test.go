package harness_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

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
	{0, "iptables -t nat -I POSTROUTING -s 10.5.0.0/16 ! -d 10.5.0.0/16 -j MASQUERADE",
		"iptables -t nat -D POSTROUTING -s 10.5.0.0/16 ! -d 10.5.0.0/16 -j MASQUERADE", ""},
	{0, "iptables -t raw -I PREROUTING -d SRC ! -i cni0 -j DROP; iptables -t raw -I PREROUTING -s 10.5.0.0/16 -j ACCEPT",
		"iptables -t raw -D PREROUTING -d SRC ! -i cni0 -j DROP; iptables -t raw -D PREROUTING -s 10.5.0.0/16 -j ACCEPT", ""},
	{0, "iptables -N ufw-before-forward; iptables -A ufw-before-forward -m conntrack --ctstate " +
		"RELATED,ESTABLISHED -j ACCEPT; " +
		"iptables -A ufw-before-forward -p icmp --icmp-type echo-request -j ACCEPT; iptables -A ufw-before-forward -s " +
		"10.5.0.0/16 -j ACCEPT; iptables -I FORWARD -j ufw-before-forward; iptables -P FORWARD DROP",
		"iptables -P FORWARD ACCEPT; iptables -D FORWARD -j ufw-before-forward; iptables -F ufw-before-forward; " +
			"iptables -X ufw-before-forward", ""},
	{1, "iptables -N ufw-before-input; iptables -A ufw-before-input -i lo -j ACCEPT; iptables -A ufw-before-input " +
		"-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT; iptables -A ufw-before-input -p udp --dport 8472 -j " +
		"ACCEPT; iptables -A ufw-before-input -p icmp -j ACCEPT; iptables -I INPUT -j " +
		"ufw-before-input; iptables -P INPUT DROP",
		"iptables -P INPUT ACCEPT; iptables -D INPUT -j ufw-before-input; iptables -F ufw-before-input; " +
			"iptables -X ufw-before-input", ""},
	nftFault(0, "inet", "forward", 10, "rule inet sealed c ct state established,related accept",
		"rule inet sealed c ip saddr 10.5.0.0/16 accept", "rule inet sealed c ip daddr 10.5.0.0/16 accept",
		"rule inet sealed c drop"),
	nftFault(1, "inet", "input", 10, "rule inet sealed c ct state established,related accept",
		"rule inet sealed c iifname { lo, flannel.1, cni0 } accept", "rule inet sealed c udp dport 8472 accept",
		"rule inet sealed c icmp type echo-request limit rate 10/second accept",
		"rule inet sealed c tcp dport { 22, 2379, 8081, 10250 } accept", "rule inet sealed c tcp dport 1-65535 reject"),
	nftFault(0, "inet", "prerouting", -300, "rule inet sealed c fib saddr . iif oif missing drop"),
	nftFault(0, "inet", "postrouting", 150, "rule inet sealed c oifname eth0 ip saddr 172.17.0.0/16 drop"),
	nftFault(1, "bridge", "forward", 0, "rule bridge sealed c ether type arp accept"),
	nftFault(1, "inet", "forward", -150, "rule inet sealed c tcp flags syn tcp option maxseg size set rt mtu"),
	{0, "ip rule add pref 32000 lookup main suppress_prefixlength 0; ip route add default via 192.168.64.2 table 51820; " +
		"ip rule add pref 32001 not fwmark 0xca6c lookup 51820",
		"ip rule del pref 32001; ip rule del pref 32000; ip route flush table 51820", ""},
	{1, "ip rule add pref 9000 fwmark 0x100/0x100 prohibit", "ip rule del pref 9000", ""},
	{0, "ip rule add pref 9001 iif eth9 blackhole", "ip rule del pref 9001", ""},
	{0, "ip xfrm policy add dir fwd src 172.16.0.0/12 dst 10.5.0.0/16 action block; ip xfrm policy add dir in " +
		"src 172.30.0.0/24 dst 192.168.64.1/32 proto tcp action block", "ip xfrm policy flush", ""},
	{0, "echo 1 > /proc/sys/net/ipv4/conf/all/rp_filter", "echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter", ""},
	{1, "echo 2 > /proc/sys/net/ipv4/conf/all/rp_filter; echo 1 > /proc/sys/net/ipv4/conf/eth0/rp_filter",
		"echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter; echo 0 > /proc/sys/net/ipv4/conf/eth0/rp_filter", ""},
	{1, "echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore; echo 2 > /proc/sys/net/ipv4/conf/all/arp_announce",
		"echo 0 > /proc/sys/net/ipv4/conf/all/arp_ignore; echo 0 > /proc/sys/net/ipv4/conf/all/arp_announce", ""},
	{0, "echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6", "echo 0 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6", ""},
	{1, "echo 1 > /proc/sys/net/ipv4/conf/eth0/proxy_arp; echo 0 > /proc/sys/net/ipv4/conf/all/send_redirects",
		"echo 0 > /proc/sys/net/ipv4/conf/eth0/proxy_arp; echo 1 > /proc/sys/net/ipv4/conf/all/send_redirects", ""},
	{0, "ip addr add 192.168.64.77/24 dev eth0", "ip addr del 192.168.64.77/24 dev eth0", ""},
	{0, "ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up",
		"ip link del docker0", ""},
	{1, "ip route add 10.0.0.0/8 via 192.168.64.1 metric 500", "ip route del 10.0.0.0/8 via 192.168.64.1 metric 500", ""},
	{0, "ip route add 192.168.64.2/32 dev eth0 mtu 1500", "ip route del 192.168.64.2/32", ""},
	{0, "ip route add unreachable 172.31.0.0/16; ip route add blackhole 10.99.0.0/16",
		"ip route del unreachable 172.31.0.0/16; ip route del blackhole 10.99.0.0/16", ""},
}

var _ = Describe("flannelctl check on healthy hosts of unlike kinds", func() {
	It("finds no more than on plain ones", func(ctx context.Context) {
		g := newGame(ctx)
		var plain []string
		causes, _ := g.told(ctx)
		for _, c := range causes {
			plain = append(plain, c.Text)
		}
		looks := func(kinds ...fault) {
			GinkgoHelper()
			what := ""
			for _, f := range kinds {
				g.do(ctx, f, f.harm)
				what += f.harm + "\n"
			}
			Eventually(ctx, g.ping).Should(Succeed(), what) // a new address or rule may cost a packet
			causes, _ := g.told(ctx)
			for _, c := range causes {
				Expect(plain).To(ContainElement(c.Text), what)
			}
			for _, f := range slices.Backward(kinds) {
				g.do(ctx, f, f.undo)
			}
		}
		for _, f := range harmless {
			By("harmless: " + f.harm)
			looks(f)
		}
		const hosts = 100
		draw := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 1))
		for range hosts/2 - len(harmless) { // two hosts in each lab
			var kinds []fault
			for _, i := range draw.Perm(len(harmless))[:5] {
				table := slices.ContainsFunc(kinds, func(k fault) bool { return k.conflicts(harmless[i]) })
				if !table {
					kinds = append(kinds, harmless[i])
				}
			}
			looks(kinds...)
		}
	}, NodeTimeout(10*time.Minute))
})
