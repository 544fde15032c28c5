package specs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("pods", func() {
	It("reach each other from every node to every node, at each of their addresses", func(ctx context.Context) {
		families := 1
		if dualStack() {
			families = 2
		}
		pods := echoPods(ctx)
		for _, from := range pods {
			for _, to := range pods {
				Expect(to.Status.PodIPs).To(HaveLen(families))
				for _, ip := range to.Status.PodIPs {
					name, err := hostname(ctx, from, net.JoinHostPort(ip.IP, "8080"))
					Expect(err).NotTo(HaveOccurred())
					Expect(name).To(Equal(to.Name))
				}
			}
		}
	}, limit, anyKernel)

	It("reach a service by its name, and all its pods answer", func(ctx context.Context) {
		pods := echoPods(ctx)
		for _, from := range pods {
			answered := map[string]bool{}
			Eventually(func(g Gomega) {
				name, err := hostname(ctx, from, "echo.default.svc.cluster.local")
				g.Expect(err).NotTo(HaveOccurred())
				answered[name] = true
				g.Expect(answered).To(HaveLen(len(pods)))
			}).WithContext(ctx).WithPolling(0).Should(Succeed())
		}
	}, limit, anyKernel)

	It("answer at the node port of every node", func(ctx context.Context) {
		service, err := kube.Client.CoreV1().Services("default").Get(ctx, "echo", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		from := echoPods(ctx)[0]
		for _, n := range kube.Nodes {
			_, err := hostname(ctx, from, fmt.Sprintf("%s:%d", n.Addr, service.Spec.Ports[0].NodePort))
			Expect(err).NotTo(HaveOccurred())
		}
	}, limit, anyKernel)
})

var _ = Describe("flannel", func() {
	It("loses no packet between pods while its DaemonSet is replaced pod by pod", func(ctx context.Context) {
		pods := echoPods(ctx)
		stop := ping(ctx, pods[0], pods[1].Status.PodIP)
		kubectl(ctx, "-n", "kube-flannel", "rollout", "restart", "daemonset/kube-flannel-ds")
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		answered := stop()
		if backend := backendType(ctx); backend == "udp" || backend == "wireguard" {
			Skip(fmt.Sprintf("%s is in the daemon here, so %d of %d pings waited for it in vain", backend,
				len(answered.lost()), answered.sent()))
		}
		Expect(answered.lost()).To(BeEmpty())
	}, limit, anyKernel)

	It("carries every packet once its DaemonSet is ready again", func(ctx context.Context) {
		kubectl(ctx, "-n", "kube-flannel", "rollout", "restart", "daemonset/kube-flannel-ds")
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		pods := echoPods(ctx)
		Eventually(func(g Gomega) { // a tunnel in the daemon begins with a handshake
			_, err := hostname(ctx, pods[0], net.JoinHostPort(pods[1].Status.PodIP, "8080"))
			g.Expect(err).NotTo(HaveOccurred())
		}).WithContext(ctx).Should(Succeed())
		expectEveryPacket(ctx)
	}, limit)

	It("gives a node that boots its pods back, with the same subnet", func(ctx context.Context) {
		n := kube.Nodes[2]
		before, pod := leaseOf(ctx, n.Name), echoPods(ctx)[2]
		Expect(n.PowerOff()).To(Succeed())
		Expect(n.PowerOn(ctx)).To(Succeed())
		Eventually(func(g Gomega) {
			now := echoPods(ctx)[2]
			g.Expect(now.Status.ContainerStatuses[0].RestartCount).
				To(BeNumerically(">", pod.Status.ContainerStatuses[0].RestartCount))
			g.Expect(now.Status.ContainerStatuses[0].Ready).To(BeTrue())
			name, err := hostname(ctx, echoPods(ctx)[0], now.Status.PodIP+":8080")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(name).To(Equal(now.Name))
		}).WithContext(ctx).Should(Succeed())
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		after := leaseOf(ctx, n.Name)
		Expect(after.Spec.PodCIDR).To(Equal(before.Spec.PodCIDR))
		Expect(after.Annotations).To(HaveKeyWithValue("flannel.alpha.coreos.com/public-ip", n.Addr.String()))
	}, limit)
})

// backendType returns what flannel's network config says.
func backendType(ctx context.Context) string {
	GinkgoHelper()
	object, err := kube.Client.CoreV1().ConfigMaps("kube-flannel").Get(ctx, "kube-flannel-cfg", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	var config struct{ Backend struct{ Type string } }
	Expect(json.Unmarshal([]byte(object.Data["net-conf.json"]), &config)).To(Succeed())
	return config.Backend.Type
}

// leaseOf returns a node's object, whose annotations are its lease.
func leaseOf(ctx context.Context, name string) *corev1.Node {
	GinkgoHelper()
	node, err := kube.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return node
}

// expectEveryPacket sends packets from one pod to another.
func expectEveryPacket(ctx context.Context) {
	GinkgoHelper()
	pods := echoPods(ctx)
	out, err := inPod(ctx, pods[0], "ping", "-c", "100", "-i", "0.02", pods[1].Status.PodIP)
	Expect(err).NotTo(HaveOccurred())
	Expect(out).To(ContainSubstring("100 packets transmitted, 100 packets received"))
}

// pings are the numbers of the pings that were answered.
type pings map[int]bool

// lost returns the numbers of those without an answer. The last ones may be under way still.
func (p pings) lost() []int {
	var lost []int
	for number := range p.sent() {
		if !p[number] {
			lost = append(lost, number)
		}
	}
	return lost
}

// sent returns how many there are up to the last one that was answered.
func (p pings) sent() int {
	last := -1
	for number := range p {
		last = max(last, number)
	}
	return last + 1
}

// pingNumber is a ping's number in its answer.
var pingNumber = regexp.MustCompile(`seq=(\d+) `)

// ping sends a ping every 20 ms until the returned function is called. That waits until two more
// seconds of pings are answered, and fails if the path is cut at the end.
func ping(ctx context.Context, from corev1.Pod, to string) func() pings {
	GinkgoHelper()
	process, err := inPod(ctx, from, "sh", "-c", "ping -i 0.02 "+to+" >/tmp/pings 2>&1 & echo $!")
	Expect(err).NotTo(HaveOccurred())
	stop := "kill -INT " + strings.TrimSpace(process)
	DeferCleanup(func(ctx context.Context) { _, _ = inPod(ctx, from, "sh", "-c", stop) }) // if the spec has failed
	return func() pings {
		GinkgoHelper()
		enough := answeredPings(ctx, from).sent() + 100
		Eventually(func() int { return answeredPings(ctx, from).sent() }).WithContext(ctx).
			Should(BeNumerically(">=", enough), "pings are no longer answered")
		_, err := inPod(ctx, from, "sh", "-c", stop)
		Expect(err).NotTo(HaveOccurred())
		answered := answeredPings(ctx, from)
		GinkgoWriter.Printf("%d pings, of which %d were lost: %d\n", answered.sent(), len(answered.lost()), answered.lost())
		return answered
	}
}

// answeredPings returns the pings of a pod that were answered until now.
func answeredPings(ctx context.Context, from corev1.Pod) pings {
	GinkgoHelper()
	out, err := inPod(ctx, from, "cat", "/tmp/pings")
	Expect(err).NotTo(HaveOccurred())
	answered := pings{}
	former := 0
	for _, line := range pingNumber.FindAllStringSubmatch(out, -1) {
		number, err := strconv.Atoi(line[1])
		Expect(err).NotTo(HaveOccurred())
		former += int(int16(number - former)) // a number has 16 bits: the nearest to the former one is meant
		answered[former] = true
	}
	return answered
}
