package specs_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// crowd is 60 pods for each node.
const crowd = `apiVersion: apps/v1
kind: Deployment
metadata: {name: crowd, namespace: default}
spec:
  replicas: 180
  selector: {matchLabels: {app: crowd}}
  template:
    metadata: {labels: {app: crowd}}
    spec:
      terminationGracePeriodSeconds: 0
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {app: crowd}}
      containers:
      - {name: pause, image: registry.k8s.io/pause:3.10.1}
`

var _ = Describe("many pods at once", func() {
	It("come and go, 60 a node, while others lose no packet", func(ctx context.Context) {
		file := filepath.Join(GinkgoT().TempDir(), "crowd.yml")
		Expect(os.WriteFile(file, []byte(crowd), 0o644)).To(Succeed())
		expectNoLoss := traffic(ctx)
		first, began := daemonsCPU(ctx), time.Now()
		for _, step := range [][]string{
			{"apply", "-f", file},
			{"rollout", "status", "deployment/crowd", "--timeout=8m"},
			{"delete", "-f", file},
			{"wait", "--for=delete", "pods", "-l", "app=crowd", "--timeout=4m"},
		} {
			before, began := daemonsCPU(ctx), time.Now()
			kubectl(ctx, step...)
			for i, after := range daemonsCPU(ctx) {
				GinkgoWriter.Printf("%s: %s: the daemon used %s of CPU within %s\n", step[0], kube.Nodes[i].Name,
					after-before[i], time.Since(began).Round(time.Millisecond))
			}
		}
		for i, last := range daemonsCPU(ctx) {
			Expect(last-first[i]).To(BeNumerically("<", time.Since(began)*2/100), "of a processor, on "+kube.Nodes[i].Name)
		}
		expectNoLoss()
	}, SpecTimeout(15*time.Minute))
})
