package specs_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/flanneld/flannel/harness/cluster"
)

var _ = Describe("the API server", func() {
	It("may go away: pods keep their network, and the daemons follow the API server again", func(ctx context.Context) {
		expectNoLoss := traffic(ctx)
		startAPIServer := stopAPIServer(ctx)
		for _, n := range kube.Nodes {
			Eventually(func() (string, error) { return flannelctl(ctx, n, "status; true") }).WithContext(ctx).
				Should(ContainSubstring("not synced"), n.Name)
		}
		startAPIServer(ctx)
		expectFollowing(ctx)
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		expectNoLoss()
	}, limit, anyKernel)

	It("may be away while a node boots: the others are not disturbed, and the node gets its subnet and its pods again",
		func(ctx context.Context) {
			n := kube.Nodes[2]
			before, network := leaseOf(ctx, n.Name), networkText(ctx)
			others := echoPods(ctx)[:2]
			expectNoLoss := traffic(ctx)
			startAPIServer := stopAPIServer(ctx)
			Expect(n.PowerOff()).To(Succeed())
			former := n.Log("kubelet") // which is on the disk, and ends with refused connections, too
			booted := make(chan error, 1)
			go func() { booted <- n.PowerOn(ctx) }() // it returns when kube-proxy knows its services
			Eventually(func() string { return strings.TrimPrefix(n.Log("kubelet"), former) }).WithContext(ctx).
				Should(SatisfyAll(ContainSubstring("Starting kubelet main sync loop"), ContainSubstring("connection refused")))
			expectNoDataPlane(ctx, n)
			stop := startFlannel(ctx, n, network)
			expectStaleDataPlane(ctx, n, others)
			stop()
			startAPIServer(ctx)
			Eventually(ctx, booted).Should(Receive(Succeed()))
			awaitPod(ctx, n)
			Expect(leaseOf(ctx, n.Name).Spec.PodCIDR).To(Equal(before.Spec.PodCIDR))
			Expect(kube.AwaitFlannel(ctx)).To(Succeed())
			expectFollowing(ctx)
			expectNoLoss()
		}, limit)

	It("may refuse all tokens of its former key: the daemons use new ones", func(ctx context.Context) {
		expectNoLoss := traffic(ctx)
		Expect(kube.RotateTokenKey(ctx)).To(Succeed())
		for _, n := range kube.Nodes {
			former := tokenOf(ctx, n)
			Expect(n.RestartKubelet(ctx)).To(Succeed()) // it would ask for a new token within 48 minutes
			Eventually(func() string { return tokenOf(ctx, n) }).WithContext(ctx).ShouldNot(Equal(former), n.Name)
		}
		Expect(kube.RevokeTokens(ctx)).To(Succeed())
		expectFollowing(ctx)
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		expectNoLoss()
	}, limit)

	// client-go looks for another file of authorities every five minutes.
	It("may get a certificate of another authority: the daemons trust it", func(ctx context.Context) {
		expectNoLoss := traffic(ctx)
		former := map[string]string{}
		for _, n := range kube.Nodes {
			former[n.Name] = processOf(ctx, n)
		}
		Expect(kube.ReplaceAuthority(ctx, func(bundle []byte) error {
			for _, n := range kube.Nodes {
				Eventually(func() string { return serviceAccount(ctx, n, "ca.crt") }).WithContext(ctx).
					Should(Equal(string(bundle)), n.Name)
			}
			kubectl(ctx, "-n", "kube-system", "rollout", "restart", "deployment/coredns")
			kubectl(ctx, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=2m")
			return nil
		})).To(Succeed())
		expectFollowing(ctx)
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		for _, n := range kube.Nodes {
			Expect(processOf(ctx, n)).To(Equal(former[n.Name]), "the daemon of "+n.Name)
		}
		expectNoLoss()
	}, SpecTimeout(12*time.Minute))
})

// stopAPIServer stops the API server until the returned function starts it. If the spec fails before, the end of the
// spec does, so that the next ones have an API server.
func stopAPIServer(ctx context.Context) (start func(context.Context)) {
	GinkgoHelper()
	Expect(kube.StopAPIServer(ctx)).To(Succeed())
	started := false
	start = func(ctx context.Context) {
		GinkgoHelper()
		if !started {
			Expect(kube.StartAPIServer(ctx)).To(Succeed())
			started = true
		}
	}
	DeferCleanup(start)
	return start
}

// expectNoDataPlane checks that a node that has just booted has nothing of flannel: kubelet knows no pods yet.
func expectNoDataPlane(ctx context.Context, n *cluster.Node) {
	GinkgoHelper()
	out, err := n.Run(ctx, "sh", "-c", "pgrep -x flanneld; ls /sys/class/net /run/flannel 2>/dev/null; true")
	Expect(err).NotTo(HaveOccurred())
	Expect(out).To(ContainSubstring("eth0"))
	Expect(out).NotTo(ContainSubstring("flannel"))
	Expect(out).NotTo(MatchRegexp(`(?m)^\d+$`), "a process")
}

// startFlannel runs the daemon of flannel's image as a plain process of a node, as a host's own service would, until
// the returned function is called. Its state file is that of the node's pods.
func startFlannel(ctx context.Context, n *cluster.Node, network string) (stop func()) {
	GinkgoHelper()
	_, err := n.Run(ctx, "sh", "-ec", `mkdir /run/image
		ctr -n k8s.io images mount `+cluster.FlannelImage+` /run/image
		cat > /run/net-conf.json <<'END'
`+network+`
END
		NODE_NAME=`+n.Name+` /run/image/opt/bin/flanneld --kube-subnet-mgr \
			--kubeconfig-file=/opt/cluster/files/admin.conf --net-config-path=/run/net-conf.json \
			--ip-masq --iface-from-node --healthz-port=8081 \
			> /run/flanneld.log 2>&1 &`)
	Expect(err).NotTo(HaveOccurred())
	return func() {
		GinkgoHelper()
		_, err := n.Run(ctx, "sh", "-ec", "kill $(pgrep -x flanneld)\n"+
			"while pgrep -x flanneld >/dev/null; do sleep 0.1; done\n"+
			"ctr -n k8s.io images unmount --rm /run/image; rmdir /run/image")
		Expect(err).NotTo(HaveOccurred())
	}
}

// expectStaleDataPlane waits until a node whose daemon has no API server reaches the pods of the others.
func expectStaleDataPlane(ctx context.Context, n *cluster.Node, pods []corev1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Eventually(func() error {
			_, err := n.Run(ctx, "/opt/cluster/programs/debian/bin/busybox", "ping", "-c1", "-W1", pod.Status.PodIP)
			return err
		}).WithContext(ctx).Should(Succeed(), func() string {
			log, err := n.Run(ctx, "cat", "/run/flanneld.log")
			return fmt.Sprint(log, err)
		})
	}
	out, err := n.Run(ctx, "sh", "-c", "/run/image/opt/bin/flannelctl status; true")
	Expect(err).NotTo(HaveOccurred())
	Expect(out).To(ContainSubstring("working from saved leases"))
}

// tokenOf returns the token that the daemon of a node reads.
func tokenOf(ctx context.Context, n *cluster.Node) string {
	GinkgoHelper()
	return serviceAccount(ctx, n, "token")
}

// serviceAccount returns a file of the daemon's service account.
func serviceAccount(ctx context.Context, n *cluster.Node, file string) string {
	GinkgoHelper()
	out, err := n.Run(ctx, "sh", "-c",
		"cat /proc/$(pgrep -o -x flanneld)/root/var/run/secrets/kubernetes.io/serviceaccount/"+file)
	Expect(err).NotTo(HaveOccurred())
	return out
}

// processOf returns the number of the daemon's process.
func processOf(ctx context.Context, n *cluster.Node) string {
	GinkgoHelper()
	out, err := n.Run(ctx, "pgrep", "-o", "-x", "flanneld")
	Expect(err).NotTo(HaveOccurred())
	return out
}

// awaitPod waits until the first node's pod reaches that of a node by its name.
func awaitPod(ctx context.Context, n *cluster.Node) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		pods, err := presentEchoPods(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods).To(HaveLen(len(kube.Nodes)))
		for _, pod := range pods {
			if pod.Spec.NodeName != n.Name {
				continue
			}
			name, err := hostname(ctx, pods[0], fmt.Sprintf("%s:8080", pod.Status.PodIP))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(name).To(Equal(pod.Name))
		}
	}).WithContext(ctx).Should(Succeed())
}
