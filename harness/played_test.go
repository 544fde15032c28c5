package harness_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
)

// Three of the troubles of docs/troubleshooting.md as users meet them: pods fail, flannelctl check names the cause, and
// its remedy helps.
var _ = Describe("users with pods that fail", Ordered, func() {
	const config = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`
	var daemon, tool string
	BeforeAll(func(ctx context.Context) {
		requireTools("nft", "iptables")
		var err error
		daemon, err = harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		tool, err = harness.BuildTool(ctx)
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(5*time.Minute))

	start := func(ctx context.Context, nodes, pods int, config string) *harness.Lab {
		GinkgoHelper()
		lab := newLab(ctx, harness.Options{Nodes: nodes, Daemon: daemon, LeaseTTL: time.Minute, Config: config})
		for _, n := range lab.Nodes {
			Expect(n.Start()).To(Succeed())
			Expect(n.WaitReady(ctx)).To(Succeed())
			for range pods {
				_, err := n.AddPod(ctx)
				Expect(err).NotTo(HaveOccurred())
			}
		}
		return lab
	}

	It("DNS times out", func(ctx context.Context) {
		n := start(ctx, 1, 2, config).Nodes[0]
		client, server := n.Pods[0], n.Pods[1]
		serveDNS(server)
		_, err := n.Shell(ctx, fmt.Sprintf("iptables -t nat -A PREROUTING -d 10.96.0.10 -p udp --dport 53 "+
			"-j DNAT --to-destination %s:53", server.Addr(cidr.V4))) // as kube-proxy does
		Expect(err).NotTo(HaveOccurred())
		Expect(n.Sysctl("bridge/bridge-nf-call-iptables", "1")).To(Succeed())
		resolve := func() error { return resolve(ctx, client, "10.96.0.10:53") }
		Eventually(ctx, resolve).Should(Succeed())

		Expect(n.Sysctl("bridge/bridge-nf-call-iptables", "0")).To(Succeed())
		Expect(resolve()).To(MatchError(syscall.ETIMEDOUT))
		found := find(checked(ctx, n, config), "br_netfilter")
		Expect(fmt.Sprint(found)).To(ContainSubstring("net.bridge.bridge-nf-call-iptables is 0"))
		Expect(found[0].Remedy).To(ContainSubstring("sysctl -w net.bridge.bridge-nf-call-iptables=1"))
		Expect(n.Sysctl("bridge/bridge-nf-call-iptables", "1")).To(Succeed())
		Eventually(ctx, resolve).Should(Succeed())
	}, limit)

	It("no route to host after a reboot", func(ctx context.Context) {
		lab := start(ctx, 2, 1, config)
		n, pod := lab.Nodes[0], lab.Nodes[0].Pods[0]
		l, err := lab.Nodes[1].Pods[0].Listen(netip.MustParseAddrPort("0.0.0.0:80"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(l.Close)
		connect := func() error {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			conn, err := pod.Dial(ctx, "tcp", netip.AddrPortFrom(lab.Nodes[1].Pods[0].Addr(cidr.V4), 80).String())
			if err == nil {
				err = conn.Close()
			}
			return err
		}
		Eventually(ctx, connect).Should(Succeed())

		By("the host boots: its devices and routes are gone, and a firewall starts before flanneld")
		Expect(n.Kill()).To(Succeed())
		_, err = n.Shell(ctx, "ip link del flannel.1; nft add table inet strict; nft add chain inet strict forward "+
			"'{ type filter hook forward priority 10; }'; "+
			"nft add rule inet strict forward ct state established accept; "+
			"nft add rule inet strict forward reject with icmpx type admin-prohibited")
		Expect(err).NotTo(HaveOccurred())
		Expect(n.Start()).To(Succeed())
		Expect(n.WaitReady(ctx)).To(Succeed())
		Expect(connect()).To(MatchError(syscall.EHOSTUNREACH))
		found := find(checked(ctx, n, config), "firewall")
		Expect(found).NotTo(BeEmpty())
		Expect(found[0].Text).To(ContainSubstring("chain forward in table inet strict"))
		_, err = n.Shell(ctx, found[0].Remedy)
		Expect(err).NotTo(HaveOccurred(), found[0].Remedy)
		Eventually(ctx, connect).Should(Succeed())
	}, limit)

	It("mixed versions", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 2, Daemon: daemon, LeaseTTL: time.Minute,
			Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`})
		n, late := lab.Nodes[0], lab.Nodes[1]
		join := func(n *harness.Node) {
			GinkgoHelper()
			Expect(n.Start()).To(Succeed())
			Expect(n.WaitReady(ctx)).To(Succeed())
			_, err := n.AddPod(ctx)
			Expect(err).NotTo(HaveOccurred())
		}
		join(late)

		By("another node joins with another config, which an older release on the first does not follow")
		Expect(late.Pause()).To(Succeed())
		Expect(lab.Store.SetConfig(ctx, config)).To(Succeed())
		join(n)
		ping := func() error {
			_, err := n.Pods[0].Ping(ctx, late.Pods[0].Addr(cidr.V4), harness.PingOptions{})
			return err
		}
		Expect(ping()).NotTo(Succeed())
		command := tool + " check --subnet-file=" + n.SubnetFile() + " --state-file=" + n.StateFile() + " || [ $? = 1 ]"
		Eventually(ctx, func() (string, error) { return n.Shell(ctx, command) }).Should(And(
			ContainSubstring(`this node runs "vxlan" and does not serve 192.168.64.2, of the backend "host-gw"`),
			ContainSubstring("ssh 192.168.64.2 systemctl restart flanneld")))

		Expect(late.Resume()).To(Succeed())
		Expect(late.Kill()).To(Succeed())
		Expect(late.Start()).To(Succeed())
		Expect(late.WaitReady(ctx)).To(Succeed())
		Expect(late.SyncPods()).To(Succeed())
		Eventually(ctx, ping).Should(Succeed())
	}, limit)
})

// serveDNS answers each packet to the pod's port 53, until the end of the spec.
func serveDNS(pod *harness.Pod) {
	GinkgoHelper()
	var c net.PacketConn
	Expect(pod.Do(func() (err error) {
		c, err = net.ListenUDP("udp", &net.UDPAddr{Port: 53})
		return err
	})).To(Succeed())
	DeferCleanup(c.Close)
	go func() {
		b := make([]byte, 100)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(b[:n], from)
		}
	}()
}

// resolve asks once, and returns ETIMEDOUT if no answer comes.
func resolve(ctx context.Context, pod *harness.Pod, server string) error {
	conn, err := pod.Dial(ctx, "udp", server)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("a question")); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 100))
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return syscall.ETIMEDOUT
	}
	return err
}
