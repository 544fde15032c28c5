package specs_test

import (
	"context"
	"os"
	"regexp"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// ran is the line in which ginkgo says how many specs it ran.
var ran = regexp.MustCompile(`Ran (\d+) of \d+ Specs in .*`)

// pass runs some of Kubernetes' own specs, all of which have to pass, and compares their number.
func pass(ctx context.Context, number string, which ...string) {
	GinkgoHelper()
	const bin = "/opt/cluster/programs/bin/"
	args := append([]string{"ginkgo", "-procs=6", "--no-color", "--timeout=25m"}, which...)
	args = append(args, bin+"network.test", "--", "--provider=local", "--kubeconfig=/opt/cluster/files/admin.conf",
		"--kubectl-path="+bin+"kubectl", "--disable-log-dump", "--num-nodes=3")
	out, err := kube.Nodes[0].Run(ctx, args...)
	GinkgoWriter.Println(ran.FindString(out))
	Expect(err).NotTo(HaveOccurred())
	Expect(ran.FindStringSubmatch(out)).To(HaveExactElements(Not(BeEmpty()), number))
}

// queues is a rule with which the sidecar for policies sees packets. Kernels lack it without CONFIG_NFT_QUEUE.
const queues = "table inet t {\n chain c {\n type filter hook output priority 0\n queue flags bypass to 9\n }\n}\n"

var _ = Describe("Kubernetes' own specs", func() {
	It("of sig-network that are marked Conformance pass", func(ctx context.Context) {
		pass(ctx, "45", `--focus=sig-network.*\[Conformance\]`)
	}, SpecTimeout(30*time.Minute))

	// SCTP needs a kernel module, which no node here may load.
	It("of network policies pass with the sidecar kube-network-policies", func(ctx context.Context) {
		if os.Getenv(netpolEnv) == "" {
			Skip("the manifest is without the sidecar: NETPOL=yes has it")
		}
		if out, err := kube.Nodes[0].Run(ctx, "sh", "-c", "printf '"+queues+"' | nft --check --file -"); err != nil {
			Skip("this kernel has no queue for nftables (CONFIG_NFT_QUEUE), which the sidecar needs: " + out)
		}
		pass(ctx, "45", `--focus=\[Feature:NetworkPolicy\]`, `--skip=\[Feature:SCTPConnectivity\]`)
	}, SpecTimeout(30*time.Minute))
})
