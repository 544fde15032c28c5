package specs_test

import (
	"context"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/harness/cluster"
)

// wrongClocks is the folder with builds of the daemon that have a wrong clock, named after the difference.
const wrongClocks = repo + "bin/clock/"

var _ = DescribeTable("flannel with a wrong clock carries every packet and follows the other nodes",
	func(ctx context.Context, wrong string) {
		by, err := time.ParseDuration(wrong)
		Expect(err).NotTo(HaveOccurred())
		n := kube.Nodes[1]
		DeferCleanup(func(ctx context.Context) { runFlannelOf(ctx, n, repo+"bin") })
		expectNoLoss := traffic(ctx)
		runFlannelOf(ctx, n, wrongClocks+wrong)
		Expect(daemonTime(ctx, n)).To(BeTemporally("~", time.Now().Add(by), 5*time.Minute))
		out, err := flannelctl(ctx, n, "status")
		Expect(err).NotTo(HaveOccurred(), "%s", out)
		expectFollowing(ctx)
		if backend := backendType(ctx); backend != "udp" && backend != "wireguard" { // these are in the daemon here
			expectNoLoss()
		}
		expectEveryPacket(ctx)
	},
	Entry("an hour ahead", "1h", limit),
	Entry("an hour behind", "-1h", limit),
)

// runFlannelOf replaces the pod of flannel on a node by one with these programs.
func runFlannelOf(ctx context.Context, n *cluster.Node, programs string) {
	GinkgoHelper()
	Expect(n.GiveFlannel(ctx, programs)).To(Succeed())
	kubectl(ctx, "-n", "kube-flannel", "delete", flannelPod(ctx, n))
	Expect(kube.AwaitFlannel(ctx)).To(Succeed())
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
