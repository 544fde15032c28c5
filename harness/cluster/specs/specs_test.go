// Package specs_test holds the specs of a whole cluster. make test-cluster runs them.
package specs_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flanneld/flannel/harness/cluster"
	"github.com/flanneld/flannel/harness/internal/sysctl"
	"github.com/flanneld/flannel/internal/suite"
)

const repo = "../../../"

// modeEnv chooses the mode of kube-proxy, manifestEnv flannel's manifest, familyEnv one
// stack, or two with "dual"; with netpolEnv the manifest has the sidecar for policies.
const (
	modeEnv     = "FLANNEL_LAB_CLUSTER_MODE"
	manifestEnv = "FLANNEL_LAB_CLUSTER_MANIFEST"
	familyEnv   = "FLANNEL_LAB_CLUSTER_FAMILY"
	netpolEnv   = "FLANNEL_LAB_CLUSTER_NETPOL"
)

// guestEnv names the program of make bin/vm. With it two of the nodes are virtual machines with a
// stock Debian kernel.
const guestEnv = "FLANNEL_LAB_CLUSTER_GUEST"

func emulated() bool { return os.Getenv(guestEnv) != "" }

// anyKernel marks the specs that run with such nodes, too.
var anyKernel = Label("any kernel")

func dualStack() bool { return os.Getenv(familyEnv) == "dual" }

func TestMain(m *testing.M) { cluster.Main(m) }

func TestCluster(t *testing.T) {
	if os.Getenv(cluster.ProgramsEnv) == "" {
		t.Skip("no programs of a whole cluster: make test-cluster builds them and runs this")
	}
	if err := cluster.Missing(); err != nil {
		t.Skip("a whole cluster ", err)
	}
	suite.Run(t, "cluster")
}

// limit is the time limit of a spec; a correct spec never reaches it.
var limit = SpecTimeout(patience(5 * time.Minute))

// patience returns a deadline for these nodes: emulated ones share the host's CPUs and are ten times slower.
func patience(d time.Duration) time.Duration {
	if emulated() {
		return 5 * d
	}
	return d
}

// awaitEcho waits until the pods of echo.yml are ready.
func awaitEcho(ctx context.Context) {
	GinkgoHelper()
	kubectl(ctx, "rollout", "status", "daemonset/echo", fmt.Sprintf("--timeout=%s", patience(2*time.Minute)))
}

// kube is the cluster of all specs.
var kube *cluster.Cluster

var _ = BeforeSuite(func(ctx context.Context) {
	settings, err := sysctl.Read()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		now, err := sysctl.Read()
		Expect(err).NotTo(HaveOccurred())
		Expect(sysctl.Changes(settings, now)).To(BeEmpty(), "settings of the host")
	})
	machines := 0
	if emulated() {
		machines = 2
	}
	kube, err = cluster.Start(ctx, cluster.Options{
		Nodes:     3,
		Emulated:  machines,
		Guest:     os.Getenv(guestEnv),
		Programs:  os.Getenv(cluster.ProgramsEnv),
		Flannel:   repo + "bin",
		Plugins:   repo + "bin/cni",
		Manifest:  manifest(),
		Tools:     repo + "deploy/firewall-tools",
		ProxyMode: cmp.Or(os.Getenv(modeEnv), "nftables"),
		DualStack: dualStack(),
		Progress:  os.Stdout,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(kube.Close()).To(Succeed()) })
	kubectl(ctx, "apply", "-f", "echo.yml")
	awaitEcho(ctx)
}, NodeTimeout(patience(5*time.Minute)))

var _ = ReportAfterEach(func(ctx SpecContext, report SpecReport) {
	if !report.Failed() || kube == nil {
		return
	}
	pods, err := kube.Kubectl(ctx, "get", "pods", "-A", "-o", "wide")
	fmt.Printf("%s%v\n", pods, err)
	for _, n := range kube.Nodes {
		fmt.Printf("the end of kubelet's log on %s:\n%s\n", n.Name, n.LogTail("kubelet"))
	}
	logs, err := kube.Kubectl(ctx, "-n", "kube-flannel", "logs", "-l", "app=flannel", "--tail=40", "--prefix")
	fmt.Printf("%s%v\n", logs, err)
})

// kubectl runs kubectl and returns its output.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := kube.Kubectl(ctx, args...)
	Expect(err).NotTo(HaveOccurred())
	return out
}

// inPod runs a command in a pod.
func inPod(ctx context.Context, pod corev1.Pod, command ...string) (string, error) {
	return kube.Kubectl(ctx, append([]string{"exec", pod.Name, "--"}, command...)...)
}

// echoPods returns the pod that answers HTTP on each node, in the order of the nodes.
func echoPods(ctx context.Context) []corev1.Pod {
	GinkgoHelper()
	pods, err := presentEchoPods(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(pods).To(HaveLen(len(kube.Nodes)))
	return pods
}

// presentEchoPods returns those of the pods that there are. A node that has just come has none yet.
func presentEchoPods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := kube.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=echo"})
	if err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	for _, n := range kube.Nodes {
		for _, pod := range list.Items {
			if pod.Spec.NodeName == n.Name {
				pods = append(pods, pod)
			}
		}
	}
	return pods, nil
}

// hostname asks the server at an address, from a pod, for the name of its pod.
func hostname(ctx context.Context, from corev1.Pod, server string) (string, error) {
	return inPod(ctx, from, "curl", "-sS", "--max-time", "5", "http://"+server+"/hostname")
}
