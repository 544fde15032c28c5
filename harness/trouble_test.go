package harness_test

import (
	"context"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/harness"
)

// toolTroubles are rows of docs/troubleshooting.md that another command than flannelctl
// check answers: what goes wrong for a healthy node, and what the command prints then.
var toolTroubles = []struct {
	row, command, cause string
	harm                func(ctx context.Context, lab *harness.Lab) error
}{
	{"a node is not ready", "status", "the datastore does not answer", func(ctx context.Context, lab *harness.Lab) error {
		return lab.Store.Stop(ctx)
	}},
	{"mixed versions", "peers", `its record is of backend "host-gw", and this node runs "vxlan"`,
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

	for _, t := range toolTroubles {
		It("names cause and remedy: "+t.row, func(ctx context.Context) {
			manual, err := os.ReadFile("../docs/troubleshooting.md")
			Expect(err).NotTo(HaveOccurred())
			Expect(string(manual)).To(And(ContainSubstring(t.row), ContainSubstring(t.cause)))
			lab := newLab(ctx, harness.Options{Nodes: 1, Daemon: daemon, LeaseTTL: time.Minute,
				Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`})
			node := lab.Nodes[0]
			Expect(node.Start()).To(Succeed())
			Expect(node.WaitReady(ctx)).To(Succeed())
			// The command ends with status 1 if it finds trouble.
			command := tool + " " + t.command + " --subnet-file=" + node.SubnetFile()
			_, err = node.Shell(ctx, command)
			Expect(err).NotTo(HaveOccurred(), "on a healthy node")
			Expect(t.harm(ctx, lab)).To(Succeed())
			Eventually(ctx, func() (string, error) { return node.Shell(ctx, command+" || [ $? = 1 ]") }).
				Should(ContainSubstring(t.cause))
		}, limit)
	}
})
