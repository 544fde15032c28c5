package specs_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flanneld/flannel/harness/cluster"
	"github.com/flanneld/flannel/internal/wholedump"
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
		for _, step := range [][]string{
			{"apply", "-f", file},
			{"rollout", "status", "deployment/crowd", "--timeout=8m"},
			{"delete", "-f", file},
			{"wait", "--for=delete", "pods", "-l", "app=crowd", "--timeout=4m"},
		} {
			began := time.Now()
			var before []int
			for _, n := range kube.Nodes {
				before = append(before, daemonCPU(ctx, n))
			}
			kubectl(ctx, step...)
			for i, n := range kube.Nodes {
				GinkgoWriter.Printf("%s: %s: the daemon used %d ms of CPU within %s\n", step[0], n.Name,
					daemonCPU(ctx, n)-before[i], time.Since(began).Round(time.Millisecond))
			}
		}
		expectNoLoss()
	}, SpecTimeout(15*time.Minute))
})

var _ = Describe("the daemon", func() {
	It("looks at a bridge on which devices come and go, up to 100 a second", func(ctx context.Context) {
		n := kube.Nodes[0]
		space, err := netns.GetFromPid(n.PID())
		Expect(err).NotTo(HaveOccurred())
		defer space.Close()
		kernel, err := wholedump.At(space)
		Expect(err).NotTo(HaveOccurred())
		defer kernel.Close()
		bridge, err := kernel.LinkByName("cni0")
		Expect(err).NotTo(HaveOccurred())

		const (
			devices = 2000
			rate    = 100 // a second, if this machine is as fast
			living  = 50  // at once
		)
		expectNoLoss := traffic(ctx)
		before, began := daemonCPU(ctx, n), time.Now()
		tick := time.NewTicker(time.Second / rate)
		defer tick.Stop()
		for i := range devices + living {
			if i < devices {
				veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("pod%d", i)},
					PeerName: fmt.Sprintf("peer%d", i)}
				veth.MasterIndex = bridge.Attrs().Index
				Expect(kernel.LinkAdd(veth)).To(Succeed())
				Expect(kernel.LinkSetUp(veth)).To(Succeed())
			}
			if i >= living {
				old := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("pod%d", i-living)}}
				Expect(kernel.LinkDel(old)).To(Succeed())
			}
			<-tick.C
		}
		GinkgoWriter.Printf("the daemon used %d ms of CPU in %s for %d devices\n", daemonCPU(ctx, n)-before,
			time.Since(began).Round(time.Millisecond), devices)
		expectNoLoss()
	}, limit)

	It("adds little to the time until a pod's first packet to another node", func(ctx context.Context) {
		if dualStack() {
			Skip("the configuration without flannel is made for IPv4")
		}
		n := kube.Nodes[1]
		env, err := n.Run(ctx, "cat", "/run/flannel/subnet.env")
		Expect(err).NotTo(HaveOccurred())
		gateway := regexp.MustCompile(`FLANNEL_SUBNET=(.*)`).FindStringSubmatch(env)[1]
		mtu := regexp.MustCompile(`FLANNEL_MTU=(.*)`).FindStringSubmatch(env)[1]
		subnet := netip.MustParsePrefix(gateway).Masked()
		// What the plugin flannel tells the plugin bridge, without the plugin flannel.
		direct := fmt.Sprintf(`{"name": "cbr0", "cniVersion": "0.3.1", "plugins": [{"type": "bridge", "isGateway": true,
			"isDefaultGateway": true, "hairpinMode": true, "ipMasq": false, "mtu": %s, "ipam": {"type": "host-local",
			"ranges": [[{"subnet": %q}]], "routes": [{"dst": "10.244.0.0/16"}]}},
			{"type": "portmap", "capabilities": {"portMappings": true}}]}`, mtu, subnet)
		times := map[string][]time.Duration{}
		for i := range 30 {
			for _, way := range []string{"with flannel", "without it"} {
				script := "rm -f /etc/cni/net.d/00-direct.conflist"
				if way != "with flannel" {
					script = "cat > /etc/cni/net.d/.new <<'END'\n" + direct +
						"\nEND\nmv /etc/cni/net.d/.new /etc/cni/net.d/00-direct.conflist"
				}
				_, err := n.Run(ctx, "sh", "-ec", script)
				Expect(err).NotTo(HaveOccurred())
				times[way] = append(times[way], firstPacket(ctx, n, fmt.Sprintf("first-%d", i)))
			}
		}
		_, err = n.Run(ctx, "rm", "-f", "/etc/cni/net.d/00-direct.conflist")
		Expect(err).NotTo(HaveOccurred())
		for way, all := range times {
			slices.Sort(all)
			GinkgoWriter.Printf("%s: p50 %s, p99 %s of %d pods\n", way, all[len(all)/2], all[len(all)-1], len(all))
		}
	}, SpecTimeout(10*time.Minute))
})

// firstPacket creates a pod on a node and returns the time until an answer from the first node's
// pod has come, to 10 ms.
func firstPacket(ctx context.Context, n *cluster.Node, name string) time.Duration {
	GinkgoHelper()
	pods := kube.Client.CoreV1().Pods("default")
	target := echoPods(ctx)[0].Status.PodIP
	script := "until ping -c1 -W1 " + target + " >/dev/null; do :; done; cut -d' ' -f1 /proc/uptime > /dev/termination-log"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: n.Name,
		RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{
			{Name: "first", Image: cluster.AgnhostImage, Command: []string{"sh", "-c", script}}}}}
	began := uptime()
	_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	var text string
	Eventually(func(g Gomega) {
		now, err := pods.Get(ctx, name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(now.Status.ContainerStatuses).NotTo(BeEmpty())
		ended := now.Status.ContainerStatuses[0].State.Terminated
		g.Expect(ended).NotTo(BeNil())
		text = ended.Message
	}).WithContext(ctx).Should(Succeed())
	ended := inSeconds(text)
	Expect(pods.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	Eventually(func() error {
		_, err := pods.Get(ctx, name, metav1.GetOptions{})
		return err
	}).WithContext(ctx).Should(MatchError(apierrors.IsNotFound, "gone"))
	return ended - began
}

// uptime returns the time since the boot of this machine, which is that of all nodes.
func uptime() time.Duration {
	GinkgoHelper()
	text, err := os.ReadFile("/proc/uptime")
	Expect(err).NotTo(HaveOccurred())
	return inSeconds(string(text))
}

// inSeconds reads the first number of a text as seconds.
func inSeconds(text string) time.Duration {
	GinkgoHelper()
	var s float64
	_, err := fmt.Sscan(text, &s)
	Expect(err).NotTo(HaveOccurred())
	return time.Duration(s * float64(time.Second)).Round(10 * time.Millisecond)
}
