package harness_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/harness"
)

// The scenarios test flannel itself. These specs only show that the real daemon
// runs in a lab, and that the probes see its work.
var _ = Describe("flanneld in a lab", Ordered, func() {
	var daemon string
	BeforeAll(func(ctx context.Context) {
		var err error
		daemon, err = harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(5*time.Minute))

	It("carries packets between pods, in both families, over two segments", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 3, Segments: 2, IPv6: true, Daemon: daemon, LeaseTTL: time.Minute,
			Config: `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"vxlan"}}`})
		for _, n := range lab.Nodes {
			Expect(n.Start()).To(Succeed())
		}
		for _, n := range lab.Nodes {
			Expect(n.WaitReady(ctx)).To(Succeed())
			_, err := n.AddPod(ctx)
			Expect(err).NotTo(HaveOccurred())
		}
		env, err := lab.Nodes[0].SubnetEnv()
		Expect(err).NotTo(HaveOccurred())
		Expect(env.MTU).To(Equal(1430))
		for _, f := range cidr.Families {
			for _, from := range lab.Pods() {
				for _, to := range lab.Pods() {
					Eventually(func() error { return pingPreserved(ctx, from, to, f) }).WithContext(ctx).Should(Succeed())
				}
			}
			a, c := lab.Pods()[0], lab.Pods()[2]
			Expect(a.PathMTU(ctx, c.Addr(f))).To(Equal(1430))
			sent, err := a.Transfer(ctx, c, f, 1<<20)
			Expect(err).NotTo(HaveOccurred())
			Expect(sent.Source).To(Equal(a.Addr(f)))
		}
		state, err := lab.Nodes[0].State(ctx, dataplane.Extent{Links: []string{"flannel.1"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(state.FDB.Len()).To(Equal(2))
		for _, n := range lab.Nodes {
			Expect(n.Stop(ctx)).To(Succeed())
			Expect(n.ExitStatus().ExitCode()).To(BeZero())
		}
	}, limit)
})

// pingPreserved pings once and checks that the destination saw the true source.
func pingPreserved(ctx context.Context, from, to *harness.Pod, f cidr.Family) error {
	result, err := from.Ping(ctx, to.Addr(f), harness.PingOptions{Timeout: 200 * time.Millisecond})
	if err == nil && result.Source != from.Addr(f) {
		err = errors.New("seen as " + result.Source.String())
	}
	return err
}
