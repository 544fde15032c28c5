package harness_test

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/harness"
)

// interop 1.7: since v0.8, several networks mean several daemons.
var _ = DescribeTableSubtree("two daemons on one host", func(second string, programs ...string) {
	var lab *harness.Lab
	var n *harness.Node

	BeforeEach(func(ctx context.Context) {
		requireTools(append(programs, "iptables")...)
		daemon, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		lab, err = harness.New(ctx, harness.Options{Nodes: 1, Daemon: daemon,
			DaemonArgs: []string{"--ip-masq", "--iptables-forward-rules", "--iptables-resync=1"}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(lab.Close)
		n = lab.Nodes[0]
		Expect(lab.Store.SetConfig(ctx, blueConfig)).To(Succeed())
		Expect(lab.Store.PutRaw(ctx, "/second/config", second)).To(Succeed())
	}, NodeTimeout(5*time.Minute))

	It("both keep their rules", func(ctx context.Context) {
		rules := func() string {
			GinkgoHelper()
			script := "iptables -S FLANNEL-FWD; iptables -t nat -S FLANNEL-POSTRTG"
			if len(programs) > 0 {
				script += "; nft list table ip flannel-ipv4"
			}
			out, err := n.Shell(ctx, script)
			Expect(err).NotTo(HaveOccurred())
			return out
		}
		applied := func() int { return strings.Count(n.Log(), "firewall-applied:") }
		Expect(n.Start()).To(Succeed())
		Expect(n.WaitReady(ctx)).To(Succeed())
		before := applied()
		dir := filepath.Join(filepath.Dir(n.SubnetFile()), "second")
		Expect(n.StartSecond(ctx, "--etcd-prefix=/second", "--subnet-file="+filepath.Join(dir, "subnet.env"),
			"--state-file="+filepath.Join(dir, "state.json"))).To(Succeed())
		both := rules()
		Expect(strings.Count(both, "10.5.0.0/16")).To(Equal(8))
		Expect(strings.Count(both, "10.6.0.0/16")).To(Equal(8))

		Expect(n.Kill()).To(Succeed())
		Expect(n.Start()).To(Succeed())
		Expect(n.WaitReady(ctx)).To(Succeed())
		Expect(rules()).To(Equal(both))
		Expect(applied()).To(Equal(before))
	}, limit)
},
	Entry("with iptables", `{"Network":"10.6.0.0/16","Backend":{"Type":"vxlan","VNI":2}}`),
	Entry("with iptables and nftables",
		`{"Network":"10.6.0.0/16","EnableNFTables":true,"Backend":{"Type":"vxlan","VNI":2}}`, "nft"),
)
