package specs_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/flanneld/flannel/harness/cluster"
)

// needEmulated skips a spec without emulated nodes.
func needEmulated() {
	GinkgoHelper()
	if !emulated() {
		Skip("no node here is a virtual machine: KERNEL=debian has two")
	}
}

var _ = Describe("a node with a kernel of its own", func() {
	It("has cgroups of version 2 alone, and its pods are in them", func(ctx context.Context) {
		needEmulated()
		for _, n := range kube.Nodes {
			if !n.Emulated {
				continue
			}
			kind, err := n.Run(ctx, "stat", "--file-system", "--format=%T", "/sys/fs/cgroup")
			Expect(err).NotTo(HaveOccurred())
			Expect(strings.TrimSpace(kind)).To(Equal("cgroup2fs"))
			of, err := n.Run(ctx, "sh", "-c", "cat /proc/$(pgrep -o -x flanneld)/cgroup")
			Expect(err).NotTo(HaveOccurred())
			Expect(of).To(HavePrefix("0::/"))
			Expect(of).To(ContainSubstring("kubepods"))
		}
	}, limit, anyKernel)
})

var _ = DescribeTable("a node whose clock is wrong, kubelet's too, carries every packet, and its daemon follows",
	func(ctx context.Context, by time.Duration) {
		needEmulated()
		n := kube.Nodes[1]
		readySince := readyTime(ctx, n)
		expectNoLoss := traffic(ctx)
		setClock(ctx, n, by)
		DeferCleanup(func(ctx context.Context) {
			setClock(ctx, n, -by)
			Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		})
		expectFollowing(ctx) // the daemon saw its clock jump
		Expect(n.RestartKubelet(ctx)).To(Succeed())
		kubectl(ctx, "-n", "kube-flannel", "delete", flannelPod(ctx, n))
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		Expect(daemonTime(ctx, n)).To(BeTemporally("~", time.Now().Add(by), 20*time.Minute))
		out, err := flannelctl(ctx, n, "status")
		Expect(err).NotTo(HaveOccurred(), "%s", out)
		expectFollowing(ctx)
		Expect(readyTime(ctx, n)).To(Equal(readySince), "the node was not ready meanwhile")
		if backendType(ctx) != "udp" { // that is in the daemon
			expectNoLoss()
		}
		expectEveryPacket(ctx)
	},
	Entry("an hour ahead", time.Hour, limit, anyKernel),
	Entry("an hour behind", -time.Hour, limit, anyKernel),
)

// readyTime returns since when a node is ready.
func readyTime(ctx context.Context, n *cluster.Node) time.Time {
	GinkgoHelper()
	for _, condition := range leaseOf(ctx, n.Name).Status.Conditions {
		if condition.Type == corev1.NodeReady {
			Expect(condition.Status).To(Equal(corev1.ConditionTrue))
			return condition.LastTransitionTime.Time
		}
	}
	Fail(n.Name + " does not say whether it is ready")
	return time.Time{}
}

// setClock makes the clock of a node jump.
func setClock(ctx context.Context, n *cluster.Node, by time.Duration) {
	GinkgoHelper()
	_, err := n.Run(ctx, "date", "--set", fmt.Sprintf("%+d seconds", int(by.Seconds())))
	Expect(err).NotTo(HaveOccurred())
}

// flannelPod returns the pod of flannel on a node, as kubectl names it.
func flannelPod(ctx context.Context, n *cluster.Node) string {
	GinkgoHelper()
	return strings.TrimSpace(kubectl(ctx, "-n", "kube-flannel", "get", "pod", "-l", "app=flannel",
		"--field-selector", "spec.nodeName="+n.Name, "-o", "name"))
}

// logTime is the beginning of a line of the daemon's log.
var logTime = regexp.MustCompile(`(?m)^I(\d{4} \d\d:\d\d:\d\d)`)

// daemonTime returns what the clock of a node's daemon said at the beginning of its log.
func daemonTime(ctx context.Context, n *cluster.Node) time.Time {
	GinkgoHelper()
	log := kubectl(ctx, "-n", "kube-flannel", "logs", flannelPod(ctx, n))
	line := logTime.FindStringSubmatch(log)
	Expect(line).NotTo(BeNil(), "%s", log)
	at, err := time.ParseInLocation("20060102 15:04:05", time.Now().UTC().Format("2006")+line[1], time.UTC)
	Expect(err).NotTo(HaveOccurred())
	return at
}
