package specs_test

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"strings"
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
		needQueues(ctx)
		pass(ctx, "45", `--focus=\[Feature:NetworkPolicy\]`, `--skip=\[Feature:SCTPConnectivity\]`)
	}, SpecTimeout(30*time.Minute))

	// A spec takes three minutes there.
	It("of network policies pass with the sidecar, between emulated nodes", func(ctx context.Context) {
		needEmulated()
		needQueues(ctx)
		kubectl(ctx, "cordon", kube.Nodes[0].Name) // the host's kernel may have no queues
		DeferCleanup(func(ctx context.Context) { kubectl(ctx, "uncordon", kube.Nodes[0].Name) })
		pass(ctx, strconv.Itoa(len(policies)), "-procs=1", "--timeout=35m",
			"--focus=Netpol NetworkPolicy between server and client ("+strings.Join(policies, "|")+")")
	}, SpecTimeout(40*time.Minute), anyKernel)
})

// policies are those of Kubernetes' specs of network policies that emulated nodes have the time for: denied by default,
// ports, networks with exceptions, and a namespace that a rule selects later.
var policies = []string{
	"should support a 'default-deny-all' policy",
	"should enforce policy based on Ports",
	"should enforce except clause while egress access to server in CIDR block",
	"should allow ingress access from updated namespace",
}

// needQueues skips a spec without the sidecar, and if the kernel of the last node lacks what that needs.
func needQueues(ctx context.Context) {
	GinkgoHelper()
	if os.Getenv(netpolEnv) == "" {
		Skip("the manifest is without the sidecar: NETPOL=yes has it")
	}
	out, err := kube.Nodes[len(kube.Nodes)-1].Run(ctx, "sh", "-c", "printf '"+queues+"' | nft --check --file -")
	if emulated() {
		Expect(err).NotTo(HaveOccurred(), "Debian's kernel has queues: %s", out)
	}
	if err != nil {
		Skip("this kernel has no queue for nftables (CONFIG_NFT_QUEUE), which the sidecar needs; KERNEL=debian has: " + out)
	}
}
