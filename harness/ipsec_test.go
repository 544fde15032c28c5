package harness_test

import (
	"context"
	"net/netip"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/harness"
)

// passphrase is the pre-shared key of these tests.
var passphrase = strings.Repeat("keep this quiet ", 6)

var _ = Describe("the ipsec backend", func() {
	It("blocks pods' packets and names what is missing, where the kernel has no ESP", func(ctx context.Context) {
		daemon, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		lab := newLab(ctx, harness.Options{Nodes: 2, Daemon: daemon, DaemonArgs: []string{"-v=6"},
			Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"ipsec","PSK":"` + passphrase + `"}}`})
		n := lab.Nodes[0]
		if err := n.Do(linux.TryESP); err == nil {
			Skip("this kernel has ESP")
		}
		network := netip.MustParsePrefix("10.5.0.0/16")
		stop, err := lab.Sniff(network)
		Expect(err).NotTo(HaveOccurred())
		for _, n := range lab.Nodes {
			Expect(n.Start()).To(Succeed())
		}
		Eventually(func(g Gomega) {
			_, status, err := n.Get(ctx, "/status")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status).To(ContainSubstring("this kernel has no ESP; `modprobe xfrm_user esp4` may load it"))
		}).WithContext(ctx).Should(Succeed())
		for _, n := range lab.Nodes {
			Eventually(n.SubnetFile()).WithContext(ctx).Should(BeAnExistingFile())
			_, err := n.AddPod(ctx)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(pingPreserved(ctx, lab.Pods()[0], lab.Pods()[1], cidr.V4)).NotTo(Succeed())
		state, err := n.State(ctx, dataplane.Extent{Networks: []netip.Prefix{network}, Policies: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Dump()).To(ContainSubstring("policy out 10.5.0.0/16 to 10.5.0.0/16 block priority 102"))
		seen, err := stop()
		Expect(err).NotTo(HaveOccurred())
		Expect(seen.Clear).To(BeZero())
		expectQuiet(ctx, lab)
	}, limit)
})

// expectQuiet searches for the pre-shared key in what the daemons publish, say and write.
// The state file holds the network config, and so the key: only root may read it.
func expectQuiet(ctx context.Context, lab *harness.Lab) {
	GinkgoHelper()
	for _, n := range lab.Nodes {
		state, err := os.Stat(n.StateFile())
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Mode().Perm()).To(Equal(os.FileMode(0o600)))
	}
	expectUnsaid(ctx, lab, []byte(passphrase))
}
