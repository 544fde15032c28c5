package harness_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/drivers/linux/firewall"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/tools/cleanup"
)

// foreign are objects of other programs, some of which resemble flannel's. All
// tables of iptables exist afterwards, which a photo of the host shows.
const foreign = `
ip link add flannel.7 type bridge
ip link set flannel.7 up
ip addr add 10.77.0.1/24 dev flannel.7
ip route add 10.5.200.0/24 via 192.168.64.9 proto static
ip route add 10.5.201.0/24 via 192.168.64.9 metric 50
ip route add 10.0.0.0/8 via 192.168.64.9
ip route add 10.6.1.0/24 via 192.168.64.9 proto 102
for program in iptables ip6tables; do
	for kind in nft legacy; do
		$program-$kind -t nat -A POSTROUTING -m comment --comment "another program" -j RETURN
		$program-$kind -t filter -A FORWARD -m comment --comment "flannel's neighbour" -j ACCEPT
	done
done
nft add table ip flannel-ipv4-of-another
`

// upstreamObjects are the objects that upstream leaves on a host with vxlan and
// DirectRouting, and with --ip-blackhole-route (interop 6.2: vxlan; 7.4: the blackhole).
const upstreamObjects = `
ip link add flannel.1 type vxlan id 1 dev eth0 local 192.168.64.1 dstport 8472 nolearning
ip link set flannel.1 mtu 1450 up
ip addr add 10.5.77.0/32 dev flannel.1
ip neigh add 10.5.2.0 lladdr c6:d2:32:6f:8f:44 dev flannel.1 nud permanent
bridge fdb add c6:d2:32:6f:8f:44 dev flannel.1 dst 192.168.64.2
ip route add 10.5.2.0/24 via 10.5.2.0 dev flannel.1 onlink
ip route add 10.5.3.0/24 via 192.168.64.3
ip route add blackhole 10.5.77.0/24
nft add table ip flannel-ipv4
nft add chain ip flannel-ipv4 forward '{ type filter hook forward priority filter; }'
`

// guard holds the rules that our daemon leaves of a change of backend; upstream has none.
const guard = `
iptables -N FLANNEL-INPUT
iptables -A FLANNEL-INPUT -p udp --dport 8472 -m comment --comment "flanneld guard 10.5.0.0/16" -j DROP
iptables -I INPUT -p udp --dport 8472 -m comment --comment "flanneld guard" -j FLANNEL-INPUT
nft add chain ip flannel-ipv4 input '{ type filter hook input priority filter; }'
nft add rule ip flannel-ipv4 input ip saddr '{ 192.168.64.2, 192.168.64.7 }' return
`

// photo prints everything on a host that cleanup may touch. To name devices' peers ip opens all namespaces with names,
// and complains of those that other programs are removing.
const photo = `
ip -o link 2>/dev/null
ip -o addr
ip route show table all
ip -6 route show table all
for program in iptables ip6tables; do
	$program-nft-save
	$program-legacy-save
done
nft list tables
`

// changing matches the parts of a photo that change by themselves: counters,
// lifetimes, comments, and the carriers of links with what follows from them.
var changing = regexp.MustCompile(`\[\d+:\d+\]|(expires|valid_lft|preferred_lft|state) \S+|<[^>]*>|linkdown|` +
	`(?m)^(#.*|.*(fe80|ff00):.*)$`)

// spaces matches the blanks that remain in the place of such parts.
var spaces = regexp.MustCompile(`\s+\n|  +`)

// photograph returns a photo of the host.
func photograph(ctx context.Context, n *harness.Node) string {
	GinkgoHelper()
	out, err := n.Shell(ctx, photo)
	Expect(err).NotTo(HaveOccurred())
	return spaces.ReplaceAllString(changing.ReplaceAllString(out, ""), "\n")
}

// clean runs cleanup on a node.
func clean(ctx context.Context, n *harness.Node, o cleanup.Options, dryRun bool) *cleanup.Result {
	GinkgoHelper()
	o.Daemons = func() ([]int, error) { return daemonOf(n) }
	var result *cleanup.Result
	withDrivers(ctx, n, func(host *linux.Driver, filter *firewall.Firewall) {
		o.Host, o.Firewall = host, filter
		var err error
		result, err = cleanup.Run(ctx, o, dryRun)
		Expect(err).NotTo(HaveOccurred())
	})
	return result
}

// kinds counts the items of a result by their kind.
func kinds(items []cleanup.Item) map[string]int {
	count := map[string]int{}
	for _, i := range items {
		count[i.Kind]++
	}
	return count
}

// writeFiles writes files below a root.
func writeFiles(root string, files map[string]string) {
	GinkgoHelper()
	for name, text := range files {
		path := filepath.Join(root, name)
		Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	}
}

var _ = Describe("cleanup", Ordered, func() {
	var daemon string
	BeforeAll(func(ctx context.Context) {
		requireTools("nft", "iptables-nft", "iptables-legacy")
		var err error
		daemon, err = harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(5*time.Minute))

	// The lock of iptables-legacy is a file that only root can open.
	var lock string
	BeforeEach(func() {
		lock = filepath.Join(GinkgoT().TempDir(), "lock")
		GinkgoT().Setenv("XTABLES_LOCKFILE", lock)
	})

	It("removes what upstream left, and nothing else", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 1, IPv6: true})
		node := lab.Nodes[0]
		_, err := node.Shell(ctx, foreign)
		Expect(err).NotTo(HaveOccurred())
		before := photograph(ctx, node)
		_, err = node.Shell(ctx, upstreamObjects+guard)
		Expect(err).NotTo(HaveOccurred())
		for _, f := range cidr.Families {
			ours := regexp.MustCompile("(?m)^.*another program.*\n").ReplaceAllString(filled(f), "")
			for _, kind := range []string{"nft", "legacy"} {
				_, err = node.Shell(ctx, programOf[f]+"-"+kind+"-restore --noflush <<'END'\n"+ours+"END\n")
				Expect(err).NotTo(HaveOccurred())
			}
		}
		root := GinkgoT().TempDir()
		writeFiles(root, map[string]string{
			"run/flannel/subnet.env": "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.77.1/24\nFLANNEL_MTU=1450\n" +
				"FLANNEL_IPMASQ=true\n",
			"run/flannel/networks/blue.env":            "FLANNEL_MTU=1450\n",
			"run/flannel/wgkey":                        "kJSHh2QW0vZVRvHFMQXUEo1VhGkVqTUjfDrjPqjmQFE=",
			"var/lib/cni/flannel/0123456789":           `{"name":"cbr0","type":"bridge"}`,
			"var/lib/cni/networks/cbr0/10.5.77.2":      "0123456789",
			"etc/cni/net.d/10-flannel.conflist":        `{"name":"cbr0","plugins":[{"type":"flannel"},{"type":"portmap"}]}`,
			"etc/cni/net.d/99-loopback.conf":           `{"type":"loopback"}`,
			"opt/cni/bin/flannel":                      "a program",
			"var/lib/flannel/etcd/member/wal/0-0.wal":  "leases",
			"var/lib/flannel/run/flannel/broken.state": "?",
		})
		options := cleanup.Options{
			Root: root, SubnetFiles: []string{"/run/flannel/subnet.env"}, KeyFiles: []string{"/run/flannel/wgkey"},
			CNIData: "/var/lib/cni/flannel", CNIConf: "/etc/cni/net.d", CNIBin: "/opt/cni/bin",
		}
		full := photograph(ctx, node)
		listed := clean(ctx, node, options, true)
		Expect(cmp.Diff(full, photograph(ctx, node))).To(BeEmpty(), "a dry run changes nothing")
		Expect(filepath.Join(root, "run/flannel/subnet.env")).To(BeARegularFile())
		Expect(kinds(listed.Items)).To(Equal(map[string]int{"link": 1, "route": 2, "chain": 7, "file": 4, "folder": 1}))

		result := clean(ctx, node, options, false)
		Expect(result.Trouble()).To(BeFalse(), "%+v", result)
		Expect(result.Items).To(ContainElements(listed.Items))
		Expect(cmp.Diff(before, photograph(ctx, node))).To(BeEmpty())
		Expect(kinds(result.Kept)).To(Equal(map[string]int{"link": 1, "route": 1, "file": 1, "folder": 1}))
		for path, there := range map[string]bool{
			"run/flannel":                              false,
			"var/lib/cni/flannel":                      false,
			"etc/cni/net.d/10-flannel.conflist":        false,
			"etc/cni/net.d/99-loopback.conf":           true,
			"var/lib/cni/networks/cbr0/10.5.77.2":      true,
			"opt/cni/bin/flannel":                      true,
			"var/lib/flannel/etcd/member/wal/0-0.wal":  true,
			"var/lib/flannel/run/flannel/broken.state": true,
		} {
			_, err := os.Lstat(filepath.Join(root, path))
			Expect(err == nil).To(Equal(there), path)
		}
		Expect(clean(ctx, node, options, false).Items).To(BeEmpty())
	}, limit)

	DescribeTable("removes what a daemon left, and nothing else", func(ctx context.Context, backend string, nft bool) {
		if backend == "wireguard" || backend == "udp" {
			requireTUN()
		}
		lab := newLab(ctx, harness.Options{Nodes: 2, Daemon: daemon, LeaseTTL: time.Minute,
			DaemonArgs: []string{"--ip-masq", "--iptables-forward-rules", "--ip-blackhole-route"},
			// The foreign routes must not lead to the node's subnet.
			Config: fmt.Sprintf(`{"Network":"10.5.0.0/16","SubnetMax":"10.5.199.0","EnableNFTables":%t,"Backend":{"Type":"%s"}}`,
				nft, backend)})
		node := lab.Nodes[0]
		_, err := node.Shell(ctx, foreign)
		Expect(err).NotTo(HaveOccurred())
		before := photograph(ctx, node)
		// The lab is at rest once the last node is ready: it has begun with the record of the other, has
		// programmed it, and no record changes from then on. So the photographed node starts last.
		for _, n := range slices.Backward(lab.Nodes) {
			n.Env = append(n.Env, "XTABLES_LOCKFILE="+lock)
			Expect(n.Start()).To(Succeed())
			Expect(n.WaitReady(ctx)).To(Succeed())
		}
		options := cleanup.Options{
			SubnetFiles: []string{node.SubnetFile()}, StateFiles: []string{node.StateFile()}, KeyFiles: []string{node.KeyFile()},
			CNIData: "/nowhere", CNIConf: "/nowhere", CNIBin: "/nowhere",
		}
		full := photograph(ctx, node)
		refused := clean(ctx, node, options, false)
		Expect(refused.Running).To(Equal([]int{node.PID()}))
		Expect(refused.Trouble()).To(BeTrue())
		Expect(cmp.Diff(full, photograph(ctx, node))).To(BeEmpty(), "nothing goes while a daemon runs")

		Expect(node.Stop(ctx)).To(Succeed())
		result := clean(ctx, node, options, false)
		Expect(result.Trouble()).To(BeFalse(), "%+v", result)
		Expect(cmp.Diff(before, photograph(ctx, node))).To(BeEmpty())
		for _, path := range []string{node.SubnetFile(), node.StateFile(), node.KeyFile()} {
			Expect(path).NotTo(BeAnExistingFile())
		}
		Expect(strings.Join(strings.Fields(fmt.Sprint(result.Items)), " ")).To(ContainSubstring("hook postrouting"))
	},
		Entry("with vxlan", limit, "vxlan", false),
		Entry("with vxlan and nftables", limit, "vxlan", true),
		Entry("with host-gw", limit, "host-gw", false),
		Entry("with udp", limit, "udp", false),
		Entry("with wireguard", limit, "wireguard", false),
	)
})
