package harness_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/harness"
)

// toolTroubles are the rows of docs/troubleshooting.md that another command than flannelctl
// check answers: a fault of a healthy node, and what the command then prints.
var toolTroubles = []struct {
	row, command, cause, remedy string
	nodes                       int
	harm                        func(ctx context.Context, lab *harness.Lab) error
}{
	{"the port of the backend is blocked", "check", "no packet arrives by UDP port 8472 from 192.168.64.2",
		"nft insert rule inet blocked-udp-8472 input udp dport 8472 accept", 2,
		func(ctx context.Context, lab *harness.Lab) error {
			return lab.Nodes[0].Block(ctx, "udp", 8472, true)
		}},
	{"a node is not ready", "status", "the datastore does not answer", "flannelctl config get", 1,
		func(ctx context.Context, lab *harness.Lab) error { return lab.Store.Stop(ctx) }},
	{"mixed versions", "check", `this node runs "vxlan" and does not serve 192.168.64.77, of the backend "host-gw"`,
		"ssh 192.168.64.77 systemctl restart flanneld", 1,
		func(ctx context.Context, lab *harness.Lab) error {
			return lab.Store.PutRaw(ctx, harness.SubnetKey("10.5.0.0-25"),
				`{"PublicIP":"192.168.64.77","PublicIPv6":null,"BackendType":"host-gw"}`)
		}},
}

var _ = Describe("flannelctl", Ordered, func() {
	var daemon, tool string
	BeforeAll(func(ctx context.Context) {
		var err error
		daemon, err = harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		tool, err = harness.BuildTool(ctx)
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(5*time.Minute))

	It("writes a page about the live cluster", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 3, Daemon: daemon, LeaseTTL: time.Minute,
			Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`})
		node := lab.Nodes[0]
		for _, n := range lab.Nodes {
			Expect(n.Start("--probe-interval=2s")).To(Succeed())
		}
		for _, n := range lab.Nodes {
			Expect(n.WaitReady(ctx)).To(Succeed())
		}
		folder := GinkgoT().TempDir()
		report := func(name string) (printed, page string) {
			file := filepath.Join(folder, name+".html")
			printed, err := node.Shell(ctx, tool+" report --subnet-file="+node.SubnetFile()+" -f "+file+" || [ $? = 1 ]")
			Expect(err).NotTo(HaveOccurred())
			text, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			return printed, string(text)
		}
		Eventually(ctx, func() (string, error) {
			return node.Shell(ctx, tool+" mesh --subnet-file="+node.SubnetFile()+" || [ $? = 1 ]")
		}).Should(And(ContainSubstring(" B"), Not(ContainSubstring("lost"))))
		printed, page := report("well")
		Expect(printed).To(ContainSubstring("The daemon that answered is ready; 2 further nodes"))
		Expect(page).To(And(ContainSubstring("192.168.64.3"), ContainSubstring("lease-acquired"),
			ContainSubstring(`"What":"arrive"`), ContainSubstring(`"What":"tunnel"`)))
		Expect(lab.Store.Stop(ctx)).To(Succeed())
		Eventually(ctx, func() string { printed, _ := report(fmt.Sprint("sick", time.Now().UnixNano())); return printed }).
			Should(ContainSubstring("is not ready: the datastore does not answer"))
	}, limit)
	It("asks and probes other nodes", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 3, Daemon: daemon, LeaseTTL: time.Minute,
			Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`})
		node := lab.Nodes[0]
		for _, n := range lab.Nodes {
			Expect(n.Start("--probe-interval=2s", "--healthz-ip=0.0.0.0", "--healthz-status")).To(Succeed())
			Expect(n.WaitReady(ctx)).To(Succeed())
		}
		mesh := func() (string, error) { return run(ctx, node, tool, "mesh --port 8081") }
		Eventually(ctx, mesh).ShouldNot(Or(ContainSubstring("?"), ContainSubstring("no answer")))
		Expect(run(ctx, node, tool, "ping 192.168.64.3")).To(ContainSubstring("3 probes, 0 lost"))
		Expect(run(ctx, node, tool, "ping --mtu 192.168.64.3")).To(ContainSubstring("answers packets of 1450 bytes, and TCP"))
		watch := "timeout -s INT 5 " + tool + " status --watch --subnet-file=" + node.SubnetFile() + " || [ $? = 124 ]"
		out, err := node.Shell(ctx, watch)
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Count(out, "phase      ready\n")).To(BeNumerically(">", 1), out)

		Expect(lab.Nodes[2].Kill()).To(Succeed()) // or it would repair the device
		Expect(lab.Nodes[2].DeleteLink("flannel.1")).To(Succeed())
		Eventually(ctx, mesh).Should(ContainSubstring("from 192.168.64.2: 192.168.64.3 does not answer"))
		Expect(run(ctx, node, tool, "ping 192.168.64.3")).To(ContainSubstring("3 probes, 3 lost"))
	}, SpecTimeout(3*time.Minute))

	It("reaches a daemon whose directory below /run was emptied", func(ctx context.Context) {
		node := newLab(ctx, harness.Options{Nodes: 1, Daemon: daemon, LeaseTTL: time.Minute,
			Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`}).Nodes[0]
		Expect(node.Start()).To(Succeed())
		Expect(node.WaitReady(ctx)).To(Succeed())
		status := func() (string, error) {
			return node.Shell(ctx, tool+" status --subnet-file="+node.SubnetFile()+" 2>&1 || [ $? = 1 ]")
		}
		Expect(status()).To(MatchRegexp("phase +ready"))
		Expect(os.RemoveAll(filepath.Dir(node.SubnetFile()))).To(Succeed())
		Expect(status()).NotTo(ContainSubstring("phase"))
		Expect(node.SetDown("flannel.1")).To(Succeed()) // the next look is soon
		Eventually(ctx, status).Should(MatchRegexp("phase +ready"))
		Eventually(ctx, func() ([]byte, error) { return os.ReadFile(node.SubnetFile()) }).
			Should(ContainSubstring("FLANNEL_SUBNET="))
		Expect(node.Log()).To(ContainSubstring("socket-gone: another program removed"))
	}, limit)

	for _, t := range toolTroubles {
		It("names cause and remedy: "+t.row, func(ctx context.Context) {
			manual, err := os.ReadFile("../docs/troubleshooting.md")
			Expect(err).NotTo(HaveOccurred())
			Expect(string(manual)).To(And(ContainSubstring(t.row), ContainSubstring(t.cause)))
			lab := newLab(ctx, harness.Options{Nodes: t.nodes, Daemon: daemon, LeaseTTL: time.Minute,
				Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`})
			for _, n := range lab.Nodes {
				Expect(n.Start("--probe-interval=2s")).To(Succeed())
				Expect(n.WaitReady(ctx)).To(Succeed())
			}
			node := lab.Nodes[0]
			// The command ends with status 1 if it finds trouble.
			command := tool + " " + t.command + " --subnet-file=" + node.SubnetFile()
			if t.command == "check" {
				command += " --state-file=" + node.StateFile()
			}
			// The node may be about to program a peer that has just begun.
			Eventually(ctx, func() error { _, err := node.Shell(ctx, command); return err }).
				Should(Succeed(), "on a healthy node")
			Expect(t.harm(ctx, lab)).To(Succeed())
			Eventually(ctx, func() (string, error) { return node.Shell(ctx, command+" || [ $? = 1 ]") }).
				Should(And(ContainSubstring(t.cause), ContainSubstring(t.remedy)))
		}, limit)
	}
})
