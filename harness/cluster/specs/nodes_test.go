package specs_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flanneld/flannel/harness/cluster"
)

var _ = Describe("a node", func() {
	It("may be drained and deleted, and a new machine takes its name", func(ctx context.Context) {
		n := kube.Nodes[2]
		subnet := leaseOf(ctx, n.Name).Spec.PodCIDR
		expectNoLoss := traffic(ctx)
		remove(ctx, n)
		awaitPeers(ctx, kube.Nodes[:2], subnet, false)
		Expect(n.Install(ctx)).To(Succeed())
		awaitNode(ctx, n)
		expectNoLoss()
	}, limit, anyKernel)

	It("may join under a name of its own: no packet between the others' pods is lost, and all reach its pods",
		func(ctx context.Context) {
			former, pods := kube.Nodes, echoPods(ctx)
			var stops []func() pings
			for i, pod := range pods {
				stops = append(stops, ping(ctx, pod, pods[(i+1)%len(pods)].Status.PodIP))
			}
			n, err := kube.AddNode(ctx)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx context.Context) {
				subnet := leaseOf(ctx, n.Name).Spec.PodCIDR
				remove(ctx, n)
				Expect(kube.ForgetNode()).To(Succeed())
				awaitPeers(ctx, former, subnet, false)
				Expect(kube.AwaitFlannel(ctx)).To(Succeed())
			})
			awaitNode(ctx, n)
			awaitPeers(ctx, former, leaseOf(ctx, n.Name).Spec.PodCIDR, true)
			added := echoPods(ctx)[len(pods)]
			for _, pod := range pods {
				for _, pair := range [][2]corev1.Pod{{pod, added}, {added, pod}} {
					name, err := hostname(ctx, pair[0], pair[1].Status.PodIP+":8080")
					Expect(err).NotTo(HaveOccurred())
					Expect(name).To(Equal(pair[1].Name))
				}
			}
			for _, stop := range stops {
				Expect(stop().lost()).To(BeEmpty())
			}
		}, limit)

	It("waits for a pod CIDR when their range is exhausted", func(ctx context.Context) {
		n := kube.Nodes[2]
		expectNoLoss := traffic(ctx)
		remove(ctx, n)
		DeferCleanup(func(ctx context.Context) { kubectl(ctx, "delete", "nodes", "-l", "kubernetes.io/os=none") })
		taken := exhaust(ctx)
		Expect(n.Install(ctx)).To(Succeed())
		Eventually(func() (string, error) { return flannelctl(ctx, n, "status; true") }).WithContext(ctx).
			Should(ContainSubstring("has no pod CIDR yet"))
		kubectl(ctx, "delete", "node", taken)
		awaitNode(ctx, n)
		expectNoLoss()
	}, limit)
})

// remove takes a node out of the cluster as an operator does, and turns it off.
func remove(ctx context.Context, n *cluster.Node) {
	GinkgoHelper()
	kubectl(ctx, "drain", n.Name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--grace-period=1")
	Expect(n.PowerOff()).To(Succeed())
	kubectl(ctx, "delete", "node", n.Name)
}

// awaitNode waits until a node of which the API server has no object yet serves pods.
func awaitNode(ctx context.Context, n *cluster.Node) {
	GinkgoHelper()
	Expect(kube.AwaitFlannel(ctx)).To(Succeed())
	awaitEcho(ctx)
	awaitPod(ctx, n)
}

// exhaust adds objects of nodes until the controller manager has no pod CIDR left for one, and returns the name of
// one that has a pod CIDR. Those that have none go: they would wait for the next free one, too.
func exhaust(ctx context.Context) string {
	GinkgoHelper()
	nodes := kube.Client.CoreV1().Nodes()
	for i := range 256 {
		_, err := nodes.Create(ctx, phantom(nil, fmt.Sprintf("phantom-%d", i)), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	var with, without []string // of the added ones
	Eventually(func(g Gomega) {
		list, err := nodes.List(ctx, metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		with, without = nil, nil
		for _, node := range list.Items {
			switch {
			case node.Spec.PodCIDR == "":
				without = append(without, node.Name)
			case strings.HasPrefix(node.Name, "phantom-"):
				with = append(with, node.Name)
			}
		}
		g.Expect(len(list.Items) - len(without)).To(Equal(256))
	}).WithContext(ctx).Should(Succeed())
	kubectl(ctx, append([]string{"delete", "node"}, without...)...)
	return with[0]
}
