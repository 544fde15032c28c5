package harness_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
)

var _ = Describe("a packet that is followed", func() {
	It("reports where it was seen and, if it was lost, why", func(ctx context.Context) {
		daemon, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		lab := newLab(ctx, harness.Options{Nodes: 2, Daemon: daemon,
			Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`})
		n1, n2 := lab.Nodes[0], lab.Nodes[1]
		for _, n := range lab.Nodes {
			Expect(n.Start()).To(Succeed())
			Expect(n.WaitReady(ctx)).To(Succeed())
		}
		a, err := n1.AddPod(ctx)
		Expect(err).NotTo(HaveOccurred())
		b, err := n2.AddPod(ctx)
		Expect(err).NotTo(HaveOccurred())
		ping := func() (harness.PingResult, error) {
			return a.Ping(ctx, b.Addr(cidr.V4), harness.PingOptions{Follow: true, Timeout: time.Second})
		}
		Eventually(ctx, func() error { _, err := ping(); return err }).Should(Succeed())

		By("following one that arrives")
		r, err := ping()
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Loss).To(BeNil())
		Expect(seen(r)).To(Equal([]string{
			"n1.pod1 out eth0", "n1 in cni0", "n1 out flannel.1", "n1 out eth0", "segment0 in n1", "segment0 out n2",
			"n2 in eth0", "n2 in flannel.1", "n2 out cni0", "n2.pod1 in eth0",
			"n2.pod1 out eth0 reply", "n2 in cni0 reply", "n2 out flannel.1 reply", "n2 out eth0 reply", "segment0 in n2 reply",
			"segment0 out n1 reply", "n1 in eth0 reply", "n1 in flannel.1 reply", "n1 out cni0 reply", "n1.pod1 in eth0 reply",
		}))

		for _, n := range lab.Nodes {
			Expect(n.Pause()).To(Succeed()) // no daemon repairs the next faults
		}
		lost := func(host, answer, reason string) {
			GinkgoHelper()
			r, err := ping()
			Expect(err).To(MatchError(harness.ErrNoReply))
			Expect(r.Loss).NotTo(BeNil())
			Expect([]string{r.Loss.Host, r.Loss.Answer, r.Loss.Reason}).To(Equal([]string{host, answer, reason}),
				"%s %v", r.Loss.Detail, seen(r))
		}
		Expect(n2.FlushRoutes("flannel.1")).To(Succeed())
		lost("router", "reply", "no_route")
		Expect(n1.FlushFDB("flannel.1")).To(Succeed())
		lost("n1", "", "fdb_missing")
		Expect(n1.FlushNeighs("flannel.1")).To(Succeed())
		lost("n1", "", "neigh_missing")
	}, NodeTimeout(5*time.Minute))
})

// seen returns the devices, in the order of time.
func seen(r harness.PingResult) []string {
	var lines []string
	for _, s := range r.Way {
		line := s.Host + map[bool]string{true: " out ", false: " in "}[s.Out] + s.Device
		if s.Answer != "" {
			line += " " + s.Answer
		}
		lines = append(lines, line)
	}
	return lines
}
