package specs_test

import (
	"context"
	"regexp"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// ran is the line in which ginkgo says how many specs it ran.
var ran = regexp.MustCompile(`Ran (\d+) of \d+ Specs in .*`)

var _ = Describe("Kubernetes' own specs", func() {
	It("of sig-network that are marked Conformance pass", func(ctx context.Context) {
		const bin = "/opt/cluster/programs/bin/"
		out, err := kube.Nodes[0].Run(ctx, "ginkgo", "-procs=6", `--focus=sig-network.*\[Conformance\]`, "--no-color",
			"--timeout=25m", bin+"network.test", "--", "--provider=local", "--kubeconfig=/opt/cluster/files/admin.conf",
			"--kubectl-path="+bin+"kubectl", "--disable-log-dump", "--num-nodes=3")
		GinkgoWriter.Println(ran.FindString(out))
		Expect(err).NotTo(HaveOccurred())
		Expect(ran.FindStringSubmatch(out)).To(HaveExactElements(Not(BeEmpty()), "45"))
	}, SpecTimeout(30*time.Minute))
})
