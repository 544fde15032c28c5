package specs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flanneld/flannel/harness/cluster"
)

const subnetFile = "/run/flannel/subnet.env"

var _ = Describe("the container runtime", func() {
	It("takes the latest version of CNI that it knows, of those that are offered", func(ctx context.Context) {
		for i, want := range []string{"0.3.1", "1.1.0", "0.3.1"} {
			n := kube.Nodes[i]
			versions := attachedVersions(ctx, n)
			Expect(versions).NotTo(BeEmpty(), n.Name)
			Expect(versions).To(HaveEach(want), "%s with %s", n.Name, runtimeOf(ctx, n))
		}
	}, limit, anyKernel)

	It("tells kubelet why flannel is not ready, if it knows STATUS of CNI 1.1", func(ctx context.Context) {
		n := kube.Nodes[1]
		Expect(runtimeOf(ctx, n)).To(HavePrefix("containerd://2."))
		wake := stopDaemon(ctx, n)
		_, err := n.Run(ctx, "rm", subnetFile)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() corev1.NodeCondition { return readyOf(ctx, n) }).WithContext(ctx).Should(SatisfyAll(
			HaveField("Status", corev1.ConditionFalse),
			HaveField("Message", SatisfyAll(ContainSubstring("NetworkPluginNotReady"), ContainSubstring(subnetFile)))))
		wake(ctx)
		Eventually(func() corev1.NodeCondition { return readyOf(ctx, n) }).WithContext(ctx).
			Should(HaveField("Status", corev1.ConditionTrue))
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
	}, limit)
})

// runtimeOf returns the name and version of a node's container runtime.
func runtimeOf(ctx context.Context, n *cluster.Node) string {
	GinkgoHelper()
	node, err := kube.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return node.Status.NodeInfo.ContainerRuntimeVersion
}

// readyOf returns the condition Ready of a node.
func readyOf(ctx context.Context, n *cluster.Node) corev1.NodeCondition {
	GinkgoHelper()
	node, err := kube.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// attachedVersions returns the version of CNI with which each present pod of a node was attached: the runtime's CNI
// library keeps the result of each.
func attachedVersions(ctx context.Context, n *cluster.Node) []string {
	GinkgoHelper()
	out, err := n.Run(ctx, "sh", "-c", "cat /var/lib/cni/results/cbr0-*")
	Expect(err).NotTo(HaveOccurred())
	var versions []string
	for decoder := json.NewDecoder(strings.NewReader(out)); decoder.More(); {
		var kept struct{ Result struct{ CNIVersion string } }
		Expect(decoder.Decode(&kept)).To(Succeed())
		versions = append(versions, kept.Result.CNIVersion)
	}
	return versions
}

// stopDaemon stops the daemon of a node, which keeps its process and all of its files, until the returned function or
// the end of the spec continues it. Kubelet restarts it if that takes longer than its probes allow.
func stopDaemon(ctx context.Context, n *cluster.Node) (wake func(context.Context)) {
	GinkgoHelper()
	pid := strings.TrimSpace(processOf(ctx, n))
	signal := func(ctx context.Context, name string) {
		GinkgoHelper()
		_, err := n.Run(ctx, "sh", "-c", fmt.Sprintf("kill -%s %s 2>/dev/null || ! kill -0 %s 2>/dev/null", name, pid, pid))
		Expect(err).NotTo(HaveOccurred())
	}
	signal(ctx, "STOP")
	wake = func(ctx context.Context) { signal(ctx, "CONT") }
	DeferCleanup(wake)
	return wake
}
