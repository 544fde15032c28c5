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

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
)

var _ = Describe("flannelctl beside a daemon that hangs", Ordered, func() {
	const hangs = "does not answer within 10s: its process hangs"
	var node *harness.Node
	var tool, way string
	BeforeAll(func(ctx context.Context) {
		daemon, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		tool, err = harness.BuildTool(ctx)
		Expect(err).NotTo(HaveOccurred())
		lab := newLab(ctx, harness.Options{Nodes: 2, Daemon: daemon, LeaseTTL: time.Minute,
			Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`})
		for _, n := range lab.Nodes {
			Expect(n.Start()).To(Succeed())
			Expect(n.WaitReady(ctx)).To(Succeed())
		}
		node = lab.Nodes[0]
		var ends []string
		for _, n := range lab.Nodes {
			pod, err := n.AddPod(ctx)
			Expect(err).NotTo(HaveOccurred())
			ends = append(ends, pod.Addr(cidr.V4).String())
		}
		way = ends[0] + " " + ends[1]
		Eventually(ctx, func() (string, error) { return run(ctx, node, tool, "trace "+way) }).
			Should(ContainSubstring("192.168.64.2"))
		Expect(node.Pause()).To(Succeed())
	}, NodeTimeout(5*time.Minute))

	It("traces a packet by what the kernel holds", func(ctx context.Context) {
		Expect(run(ctx, node, tool, "trace "+way)).To(And(ContainSubstring("192.168.64.2"), ContainSubstring("flannel.1"),
			ContainSubstring("the nodes of the cluster are not known"), ContainSubstring(hangs)))
	}, limit)

	It("dumps the rest, and says what is missing", func(ctx context.Context) {
		file := filepath.Join(GinkgoT().TempDir(), "dump.tar.gz")
		Expect(run(ctx, node, tool, "dump -f "+file+" --state-file="+node.StateFile())).To(ContainSubstring("missing.txt"))
		out, err := node.Shell(ctx, "tar -xzOf "+file+" --wildcards '*/missing.txt'")
		Expect(err).NotTo(HaveOccurred())
		for _, page := range []string{"status", "peers", "diff", "state", "events"} {
			Expect(out).To(MatchRegexp("(?m)^" + page + `\.json: .*` + hangs))
		}
		Expect(out).NotTo(ContainSubstring("check.json"))
		out, err = node.Shell(ctx, "tar -xzOf "+file+" --wildcards '*/ip/routes.txt' '*/check.json'")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(And(ContainSubstring("flannel.1"), ContainSubstring(hangs)))
	}, limit)

	It("says so, whatever the command", func(ctx context.Context) {
		folder := GinkgoT().TempDir()
		script := ""
		for _, command := range []string{"status", "peers", "diff", "mesh", "check", "report -f " + folder + "/page"} {
			script += fmt.Sprintf("%s %s --subnet-file=%s >%s/%s.txt 2>&1 & ", tool, command, node.SubnetFile(), folder,
				strings.Fields(command)[0])
		}
		_, err := node.Shell(ctx, script+"wait") // they wait for the daemon together
		Expect(err).NotTo(HaveOccurred())
		said, err := filepath.Glob(folder + "/*.txt")
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(HaveLen(6))
		for _, file := range said {
			Expect(os.ReadFile(file)).To(ContainSubstring(hangs), file)
		}
	}, limit)
})

// run runs flannelctl on a node. It may find trouble.
func run(ctx context.Context, n *harness.Node, tool, command string) (string, error) {
	return n.Shell(ctx, tool+" "+command+" --subnet-file="+n.SubnetFile()+" || [ $? = 1 ]")
}
