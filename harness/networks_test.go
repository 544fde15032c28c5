package harness_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/internal/pace"
)

// The configs of two networks that a host can run side by side.
const (
	blueConfig  = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`
	greenConfig = `{"Network":"10.6.0.0/16","Backend":{"Type":"udp"}}`
)

var _ = Describe("two networks in one daemon", Ordered, func() {
	var lab *harness.Lab
	pods := map[string][]*harness.Pod{}

	BeforeAll(func(ctx context.Context) {
		requireTools("iptables")
		requireTUN()
		daemon, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		lab, err = harness.New(ctx, harness.Options{Nodes: 3, Daemon: daemon,
			DaemonArgs: []string{"--networks=blue,green", "--ip-masq", "--iptables-forward-rules", "--iptables-resync=1"}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(lab.Close)
		Expect(lab.Store.SetConfigOf(ctx, "blue", blueConfig)).To(Succeed())
		for _, n := range lab.Nodes {
			Expect(n.Start()).To(Succeed())
		}
	}, NodeTimeout(5*time.Minute))

	shell := func(ctx context.Context, n *harness.Node, script string) string {
		GinkgoHelper()
		out, err := n.Shell(ctx, script)
		Expect(err).NotTo(HaveOccurred())
		return out
	}
	addPods := func(ctx context.Context, network string) {
		GinkgoHelper()
		for _, n := range lab.Nodes {
			p, err := n.AddPodOf(ctx, network)
			Expect(err).NotTo(HaveOccurred())
			pods[network] = append(pods[network], p)
		}
	}

	It("is ready when all networks are", func(ctx context.Context) {
		for _, n := range lab.Nodes {
			Expect(n.Await(ctx, "blue to be ready", func() (bool, error) {
				_, why := n.Ready(ctx)
				return why != nil && why.Error() == "503 flanneld is not ready yet\nnetwork green: the datastore holds no "+
					"config of this network; put one at <etcd-prefix>/<network>/config", nil
			})).To(Succeed())
		}
		Expect(lab.Store.SetConfigOf(ctx, "green", "{")).To(Succeed())
		for _, n := range lab.Nodes {
			Expect(n.Await(ctx, "blue alone to be ready", func() (bool, error) {
				_, why := n.Ready(ctx)
				blue, _, err := n.Get(ctx, "/readyz?network=blue")
				return why != nil && strings.HasPrefix(why.Error(), "503 flanneld is not ready yet\n"+
					"network green: network config: ") && blue == http.StatusOK, err
			})).To(Succeed())
		}
		Expect(lab.Store.SetConfigOf(ctx, "green", greenConfig)).To(Succeed())
		for _, n := range lab.Nodes {
			Expect(n.WaitReady(ctx)).To(Succeed())
		}
	}, limit)

	It("carries packets within each network", func(ctx context.Context) {
		for _, network := range []string{"blue", "green"} {
			addPods(ctx, network)
			for i, from := range pods[network] {
				to := pods[network][(i+1)%len(pods[network])]
				awaitPing(ctx, from, to)
				Expect(pingPreserved(ctx, from, to, cidr.V4)).To(Succeed())
			}
		}
	}, limit)

	It("carries no packet from one to the other", func(ctx context.Context) {
		for _, from := range pods["blue"] {
			for _, to := range pods["green"] {
				_, err := from.Ping(ctx, to.Addr(cidr.V4), harness.PingOptions{Timeout: 300 * time.Millisecond})
				Expect(err).To(MatchError(harness.ErrNoReply), "%s to %s", from.Name, to.Name)
				_, err = to.Ping(ctx, from.Addr(cidr.V4), harness.PingOptions{Timeout: 300 * time.Millisecond})
				Expect(err).To(MatchError(harness.ErrNoReply), "%s to %s", to.Name, from.Name)
			}
		}
	}, limit)

	It("names the network in the log, at the pages and in the metrics", func(ctx context.Context) {
		n := lab.Nodes[0]
		Expect(n.Log()).To(And(ContainSubstring("network blue: lease-acquired:"),
			ContainSubstring("network green: lease-acquired:")))
		get := func(path string) string {
			GinkgoHelper()
			status, page, err := n.Get(ctx, path)
			Expect(err).NotTo(HaveOccurred())
			return fmt.Sprint(status, " ", page)
		}
		Expect(get("/status?network=green")).To(And(HavePrefix("200 "), ContainSubstring(`"Network": "green"`),
			ContainSubstring(`"Backend": "udp"`)))
		Expect(get("/status")).To(Equal(
			"404 no network \"\" here; ask for one of blue, green, as /status?network=blue\n"))
		Expect(get("/metrics")).To(And(ContainSubstring(`flannel_ready{network="blue"} 1`),
			ContainSubstring(`flannel_ready{network="green"} 1`)))
	}, limit)

	It("loses no packet and no rule by a restart", func(ctx context.Context) {
		n := lab.Nodes[0]
		rules := shell(ctx, n, "iptables -S; iptables -t nat -S")
		links := shell(ctx, n, "ip -br link show flannel.1")
		Expect(n.Kill()).To(Succeed())
		Expect(n.Start()).To(Succeed())
		Expect(n.WaitReady(ctx)).To(Succeed())
		Expect(shell(ctx, n, "iptables -S; iptables -t nat -S")).To(Equal(rules))
		Expect(shell(ctx, n, "ip -br link show flannel.1")).To(Equal(links))
		awaitPing(ctx, pods["blue"][0], pods["blue"][1])
		awaitPing(ctx, pods["green"][0], pods["green"][1])
	}, limit)

	It("refuses a config that collides, and leaves the other network alone", func(ctx context.Context) {
		Expect(lab.Store.SetConfigOf(ctx, "green", `{"Network":"10.5.128.0/17","Backend":{"Type":"udp"}}`)).To(Succeed())
		for _, n := range lab.Nodes {
			Expect(n.Await(ctx, "green to be refused", func() (bool, error) {
				_, why := n.Ready(ctx)
				return why != nil && why.Error() == "503 flanneld is not ready yet\nnetwork green: network green cannot run "+
					"on this host beside network blue: "+
					"its addresses 10.5.128.0/17 overlap with 10.5.0.0/16; change one of the configs", nil
			})).To(Succeed())
		}
		Expect(pingPreserved(ctx, pods["blue"][0], pods["blue"][1], cidr.V4)).To(Succeed())
		Expect(pingPreserved(ctx, pods["green"][0], pods["green"][1], cidr.V4)).To(Succeed())
		Expect(lab.Store.SetConfigOf(ctx, "green", greenConfig)).To(Succeed())
		for _, n := range lab.Nodes {
			Expect(n.WaitReady(ctx)).To(Succeed())
		}
	}, limit)

	It("removes no network with an etcd that lost its data while the daemon ran", func(ctx context.Context) {
		n := lab.Nodes[0]
		state := func() string {
			return shell(ctx, n, "ip -br link show flannel.1; ip route show proto 102; iptables -S; iptables -t nat -S")
		}
		before, from := state(), len(n.Log())
		Expect(lab.Store.CutFrom(n)).To(Succeed())
		Expect(lab.Store.Wipe(ctx)).To(Succeed())
		for range 200 { // past the revisions of the configs
			Expect(lab.Store.PutRaw(ctx, "/other", "x")).To(Succeed())
		}
		Expect(lab.Store.RestoreTo(n)).To(Succeed())
		Expect(n.Await(ctx, "both records to be back", func() (bool, error) {
			log := n.Log()[from:]
			return strings.Count(log, "lease-acquired:") == 2, nil
		})).To(Succeed())
		Expect(n.Log()[from:]).NotTo(ContainSubstring("network-removed"))
		Expect(state()).To(Equal(before))
		Expect(lab.Store.SetConfigOf(ctx, "blue", blueConfig)).To(Succeed())
		Expect(lab.Store.SetConfigOf(ctx, "green", greenConfig)).To(Succeed())
		for _, n := range lab.Nodes {
			Expect(n.WaitReady(ctx)).To(Succeed())
		}
	}, limit)

	It("removes all of a network whose config is deleted, and restores it with the config", func(ctx context.Context) {
		Expect(lab.Store.DeleteKey(ctx, harness.ConfigKeyOf("green"))).To(Succeed())
		for _, n := range lab.Nodes {
			Expect(n.Await(ctx, "green to be gone", func() (bool, error) {
				_, err := os.Stat(n.SubnetFileOf("green"))
				left := shell(ctx, n, "ip -br link; ip route show proto 102; iptables -S; iptables -t nat -S")
				return errors.Is(err, fs.ErrNotExist) && !hasAny(left, "flannel0", "10.6.0.0/16", "10.6."), nil
			})).To(Succeed())
		}
		Expect(pingPreserved(ctx, pods["blue"][0], pods["blue"][1], cidr.V4)).To(Succeed())

		Expect(lab.Store.SetConfigOf(ctx, "green", greenConfig)).To(Succeed())
		for _, n := range lab.Nodes {
			Expect(n.WaitReady(ctx)).To(Succeed())
		}
		awaitPing(ctx, pods["green"][0], pods["green"][1]) // with the same subnets
	}, limit)

	It("swaps the UDP ports of two networks", func(ctx context.Context) {
		listen := func(blue, green int) {
			GinkgoHelper()
			for network, config := range map[string]string{
				"blue":  fmt.Sprintf(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","Port":%d}}`, blue),
				"green": fmt.Sprintf(`{"Network":"10.6.0.0/16","Backend":{"Type":"udp","Port":%d}}`, green),
			} {
				Expect(lab.Store.SetConfigOf(ctx, network, config)).To(Succeed())
			}
			for _, n := range lab.Nodes {
				var seen string
				Expect(n.Await(ctx, "the networks to have the ports", func() (bool, error) {
					seen = shell(ctx, n, "ip -d link show type vxlan; ss -lun")
					ready, _ := n.Ready(ctx)
					return ready && strings.Contains(seen, fmt.Sprintf("dstport %d ", blue)) &&
						strings.Contains(seen, fmt.Sprintf(":%d ", green)), nil
				})).To(Succeed(), "the host has\n%s", seen)
			}
			awaitPing(ctx, pods["blue"][0], pods["blue"][1])
			awaitPing(ctx, pods["green"][0], pods["green"][1])
		}
		listen(8285, 8472)
		listen(8472, 8285)
	}, limit)
})

var _ = Describe("two networks that swap their devices", func() {
	It("have one address each, though both have lost their memory", func(ctx context.Context) {
		daemon, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		lab, err := harness.New(ctx, harness.Options{Nodes: 1, Daemon: daemon, DaemonArgs: []string{"--networks=blue,green"}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(lab.Close)
		n := lab.Nodes[0]
		run := func(blue, green int) {
			GinkgoHelper()
			for network, config := range map[string]string{
				"blue":  fmt.Sprintf(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","VNI":%d}}`, blue),
				"green": fmt.Sprintf(`{"Network":"10.6.0.0/16","Backend":{"Type":"vxlan","VNI":%d}}`, green),
			} {
				Expect(lab.Store.SetConfigOf(ctx, network, config)).To(Succeed())
			}
			Expect(n.Start()).To(Succeed())
			Expect(n.WaitReady(ctx)).To(Succeed())
		}
		addrs := func(device string) string {
			GinkgoHelper()
			out, err := n.Shell(ctx, "ip -4 -br addr show dev "+device)
			Expect(err).NotTo(HaveOccurred())
			return strings.Join(strings.Fields(out)[2:], " ")
		}
		run(1, 2)
		blue, green := addrs("flannel.1"), addrs("flannel.2")
		Expect([]string{blue, green}).To(HaveExactElements(HavePrefix("10.5."), HavePrefix("10.6.")))
		Expect(n.Kill()).To(Succeed())
		_, err = n.Shell(ctx, "rm -r "+filepath.Dir(n.StateFile()))
		Expect(err).NotTo(HaveOccurred())
		run(2, 1)
		Expect(n.Await(ctx, "each device to have its network's address alone", func() (bool, error) {
			return addrs("flannel.2") == blue && addrs("flannel.1") == green, nil
		})).To(Succeed())
	}, limit)
})

var _ = Describe("networks that come and go", func() {
	It("are followed, also while the daemon is down", func(ctx context.Context) {
		requireTools("iptables")
		daemon, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		lab, err := harness.New(ctx, harness.Options{Nodes: 1, Daemon: daemon,
			DaemonArgs: []string{"--watch-networks", "--ip-masq", "--iptables-forward-rules"}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(lab.Close)
		n := lab.Nodes[0]
		config := func(network, config string) {
			GinkgoHelper()
			if config == "" {
				Expect(lab.Store.DeleteKey(ctx, harness.ConfigKeyOf(network))).To(Succeed())
				return
			}
			Expect(lab.Store.SetConfigOf(ctx, network, config)).To(Succeed())
		}
		runs := func(networks ...string) {
			GinkgoHelper()
			var got []string
			Expect(n.Await(ctx, fmt.Sprint("the networks ", networks), func() (bool, error) {
				ready, _ := n.Ready(ctx)
				_, page, err := n.Get(ctx, "/metrics")
				got = nil
				for _, network := range []string{"blue", "green"} {
					if strings.Contains(page, fmt.Sprintf("flannel_ready{network=%q} 1", network)) {
						got = append(got, network)
					}
				}
				return err == nil && ready && slices.Equal(got, networks), nil
			})).To(Succeed(), "it runs %q; its log:\n%s", got, n.LogTail(20))
		}
		const second = `{"Network":"10.6.0.0/16","Backend":{"Type":"vxlan","VNI":2}}`
		links := func(ctx context.Context) (string, error) {
			return n.Shell(ctx, "ip -br link; iptables -S; iptables -t nat -S")
		}
		var before string
		// The answers about readiness are of different moments, and blue drops its rule against green when green has gone.
		blueAlone := func() {
			GinkgoHelper()
			runs("blue")
			Eventually(ctx, links).WithTimeout(pace.Scale(10*time.Second)).Should(Equal(before), "its log:\n%s", n.LogTail(20))
		}

		Expect(n.Start()).To(Succeed())
		runs()
		config("blue", blueConfig)
		runs("blue")
		before, err = links(ctx)
		Expect(err).NotTo(HaveOccurred())
		config("green", second)
		runs("blue", "green")
		config("green", "")
		blueAlone()

		config("green", second)
		runs("blue", "green")
		Expect(n.Kill()).To(Succeed())
		config("green", "")
		Expect(n.Start()).To(Succeed())
		blueAlone()
		config("green", second)
		runs("blue", "green")

		Expect(n.Kill()).To(Succeed())
		Expect(n.Start("--networks=green")).To(Succeed())
		runs("green")
	}, limit)
})

// hasAny reports whether a text holds one of the parts.
func hasAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}
