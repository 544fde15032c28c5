package kubelab_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/harness/kubelab"
	"github.com/flanneld/flannel/internal/suite"
)

func TestMain(m *testing.M) { harness.Main(m) }

func TestKubelab(t *testing.T) {
	if os.Getenv(kubelab.ServerEnv) == "" {
		t.Skip("no kube-apiserver: make test-kube builds one and runs this")
	}
	suite.Run(t, "kubelab")
}

// limit is the time limit of a spec; a correct spec never reaches it.
const limit = SpecTimeout(3 * time.Minute)

const manifest = "../../deploy/kube-flannel.yml"

// cluster is an API server and nodes whose daemons do not run yet.
type cluster struct {
	*kubelab.Cluster
	lab *harness.Lab
}

// newCluster builds a cluster that ends with the spec. The network config is
// that of the daemons; the manifest has been applied.
func newCluster(ctx context.Context, nodes int, netconf string, args ...string) *cluster {
	GinkgoHelper()
	daemon, err := harness.BuildDaemon(ctx)
	Expect(err).NotTo(HaveOccurred())
	dir := GinkgoT().TempDir()
	conf := filepath.Join(dir, "net-conf.json")
	Expect(os.WriteFile(conf, []byte(netconf), 0o644)).To(Succeed())
	kubeconfig := filepath.Join(dir, "kubeconfig")
	lab, err := harness.New(ctx, harness.Options{Nodes: nodes, IPv6: true, Outside: true, Daemon: daemon,
		DaemonArgs: append([]string{"--kube-subnet-mgr", "--kubeconfig-file=" + kubeconfig,
			"--net-config-path=" + conf}, args...)})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(lab.Close)
	for _, n := range lab.Nodes {
		n.Env = []string{"NODE_NAME=" + n.Name}
	}
	server, err := kubelab.Start(ctx, lab, dir)
	Expect(err).NotTo(HaveOccurred())
	c := &cluster{server, lab}
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			for _, n := range lab.Nodes {
				GinkgoWriter.Printf("log of %s:\n%s\n", n.Name, n.LogTail(40))
			}
		}
	})
	objects, err := kubelab.Objects(manifest)
	Expect(err).NotTo(HaveOccurred())
	for _, o := range objects {
		Expect(c.Apply(ctx, o, false)).To(Succeed())
	}
	return c
}

// register makes a node object as kubelet and the controller manager do: with a
// name and assigned pod CIDRs.
func (c *cluster) register(ctx context.Context, name string, podCIDRs ...string) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: podCIDRs}}
	if len(podCIDRs) > 0 {
		node.Spec.PodCIDR = podCIDRs[0]
	}
	if n := c.lab.Node(name); n != nil {
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP,
			Address: n.Underlay(cidr.V4).Addr().String()}}
	}
	_, err := c.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// registerAll registers every node of the lab with a pod CIDR of its own.
func (c *cluster) registerAll(ctx context.Context) {
	GinkgoHelper()
	for _, n := range c.lab.Nodes {
		c.register(ctx, n.Name, podCIDR(n))
	}
}

func podCIDR(n *harness.Node) string { return fmt.Sprintf("10.244.%d.0/24", n.Number) }

func podCIDR6(n *harness.Node) string { return fmt.Sprintf("fd00:10:0:%d::/64", n.Number) }

// startAll starts all daemons and gives each node a pod.
func (c *cluster) startAll(ctx context.Context) {
	GinkgoHelper()
	for _, n := range c.lab.Nodes {
		Expect(n.Start()).To(Succeed())
	}
	for _, n := range c.lab.Nodes {
		Expect(n.WaitReady(ctx)).To(Succeed())
		_, err := n.AddPod(ctx)
		Expect(err).NotTo(HaveOccurred())
	}
}

func (c *cluster) node(ctx context.Context, name string) *corev1.Node {
	GinkgoHelper()
	node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return node
}
