package harness_test

import (
	"context"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/harness"
)

// storeTroubles are faults of the datastore that come with a node that serves its pods, and what flannelctl says.
var storeTroubles = []struct {
	row, command, cause, remedy string
	stays                       bool // the node stays ready
	harm                        func(ctx context.Context, lab *harness.Lab) error
}{
	{"etcd is full and leases are still renewed", "check", "alarm:NOSPACE", "etcdctl alarm disarm", true,
		func(ctx context.Context, lab *harness.Lab) error { return lab.Store.Alarm(ctx, true) }},
	{"etcd has no leader", "check", "etcdserver: no leader", "etcdctl endpoint status", false,
		func(ctx context.Context, lab *harness.Lab) error { return lab.Store.LoseLeader(ctx) }},
	{"etcd has no leader", "status", "may have no leader", "flannelctl check --etcd-endpoints=URL", false,
		func(ctx context.Context, lab *harness.Lab) error { return lab.Store.LoseLeader(ctx) }},
	{"the name of the datastore does not resolve", "status", "this host cannot resolve the name etcd.invalid",
		"getent hosts etcd.invalid", false,
		func(ctx context.Context, lab *harness.Lab) error {
			n := lab.Nodes[0]
			if err := n.Stop(ctx); err != nil {
				return err
			}
			return n.Start("--etcd-endpoints=http://etcd.invalid:2379")
		}},
}

var _ = Describe("flannelctl with a datastore that fails", Ordered, func() {
	var daemon, tool string
	BeforeAll(func(ctx context.Context) {
		var err error
		daemon, err = harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		tool, err = harness.BuildTool(ctx)
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(5*time.Minute))

	for _, t := range storeTroubles {
		It("names cause and remedy by "+t.command+": "+t.row, func(ctx context.Context) {
			manual, err := os.ReadFile("../docs/troubleshooting.md")
			Expect(err).NotTo(HaveOccurred())
			Expect(string(manual)).To(ContainSubstring(t.row))
			lab := newLab(ctx, harness.Options{Nodes: 1, Daemon: daemon, LeaseTTL: time.Minute,
				Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`})
			n := lab.Nodes[0]
			Expect(n.Start()).To(Succeed())
			Expect(n.WaitReady(ctx)).To(Succeed())
			command := tool + " " + t.command + " --subnet-file=" + n.SubnetFile()
			if t.command == "check" {
				command += " --state-file=" + n.StateFile() + " --etcd-endpoints=" + lab.Store.Endpoint()
			}
			Expect(n.Shell(ctx, command)).NotTo(ContainSubstring(t.cause), "on a healthy node")
			Expect(t.harm(ctx, lab)).To(Succeed())
			Eventually(ctx, func() (string, error) { return n.Shell(ctx, command+" || [ $? = 1 ]") }).
				Should(And(ContainSubstring(t.cause), ContainSubstring(t.remedy)))
			if t.stays {
				Expect(n.WaitReady(ctx)).To(Succeed())
			}
		}, limit)
	}
})
