package specs_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/time/rate"
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

var _ = Describe("the daemon", func() {
	It("uses less than 2 % of a processor while 100 pods' devices a second come and go", func(ctx context.Context) {
		const (
			devices = 2400
			makers  = 6
			wanted  = 120 // a second, if this machine is as fast
		)
		n := kube.Nodes[0]
		_, err := n.Run(ctx, "ip", "netns", "add", podSpace)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx context.Context) {
			_, err := n.Run(ctx, "ip", "netns", "delete", podSpace)
			Expect(err).NotTo(HaveOccurred())
		})
		expectNoLoss := traffic(ctx)
		before, began := daemonCPU(ctx, n), time.Now()
		pace := rate.NewLimiter(wanted, makers)
		var all sync.WaitGroup
		errs := make([]error, makers)
		for i := range makers {
			all.Go(func() { errs[i] = churn(ctx, n, fmt.Sprintf("veth%d-", i), devices/makers, pace) })
		}
		all.Wait()
		took := time.Since(began)
		Expect(errors.Join(errs...)).To(Succeed())
		used := daemonCPU(ctx, n) - before
		GinkgoWriter.Printf("the daemon used %s of CPU in %s for %d devices: %.0f a second, %.2f %%\n", used,
			took.Round(time.Millisecond), devices, devices/took.Seconds(), 100*used.Seconds()/took.Seconds())
		Expect(used).To(BeNumerically("<", took*2/100))
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
		DeferCleanup(func(ctx context.Context) {
			_, err := n.Run(ctx, "rm", "-f", "/etc/cni/net.d/00-direct.conflist")
			Expect(err).NotTo(HaveOccurred())
		})
		const with, without = "with flannel", "without it"
		times := map[string][]time.Duration{}
		for i := range 100 {
			for _, way := range []string{with, without} { // in turns, so that a busy machine slows both
				script := "rm -f /etc/cni/net.d/00-direct.conflist"
				if way == without {
					script = "cat > /etc/cni/net.d/.new <<'END'\n" + direct +
						"\nEND\nmv /etc/cni/net.d/.new /etc/cni/net.d/00-direct.conflist"
				}
				_, err := n.Run(ctx, "sh", "-ec", script)
				Expect(err).NotTo(HaveOccurred())
				times[way] = append(times[way], firstPacket(ctx, n, fmt.Sprintf("first-%d", i)))
			}
		}
		for _, way := range []string{with, without} {
			all := times[way]
			slices.Sort(all)
			GinkgoWriter.Printf("%s: p50 %s, p99 %s, at most %s of %d pods\n", way, median(all), all[len(all)*99/100-1],
				all[len(all)-1], len(all))
		}
		Expect(median(times[with])).To(BeNumerically("<", median(times[without])*12/10+50*time.Millisecond))
	}, SpecTimeout(15*time.Minute))
})

// podSpace is a network namespace of a node that has the other ends of such devices, as a pod's has.
const podSpace = "churn"

// churn makes devices on a node's bridge, and deletes each when eight more are there. The daemon hears nothing of those
// with names like those that the CNI plugin bridge gives.
func churn(ctx context.Context, n *cluster.Node, prefix string, devices int, pace *rate.Limiter) error {
	space, err := netns.GetFromPid(n.PID())
	if err != nil {
		return err
	}
	defer space.Close()
	kernel, err := wholedump.At(space)
	if err != nil {
		return err
	}
	defer kernel.Close()
	bridge, err := kernel.LinkByName("cni0")
	if err != nil {
		return err
	}
	pod, err := netns.GetFromPath(fmt.Sprintf("/proc/%d/root/run/netns/%s", n.PID(), podSpace))
	if err != nil {
		return err
	}
	defer pod.Close()
	const living = 8
	name := func(i int) string { return fmt.Sprintf("%s%d", prefix, i) }
	for i := range devices + living {
		if i < devices {
			veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name(i), MasterIndex: bridge.Attrs().Index},
				PeerName: name(i), PeerNamespace: netlink.NsFd(pod)}
			err := errors.Join(pace.Wait(ctx), kernel.LinkAdd(veth), kernel.LinkSetUp(veth))
			if err != nil {
				return err
			}
		}
		if i < living {
			continue
		}
		if err := kernel.LinkDel(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name(i - living)}}); err != nil {
			return err
		}
	}
	return nil
}

// median returns the middle of sorted times.
func median(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }

// readClock prints the time of day in microseconds, as the shell of a pod can read it.
const readClock = `adjtimex | sed -n 's/.*time.tv_sec: *//p; s/.*time.tv_usec: */ /p' > /dev/termination-log`

// firstPacket creates a pod on a node and returns the time until an answer from the first node's
// pod has come.
func firstPacket(ctx context.Context, n *cluster.Node, name string) time.Duration {
	GinkgoHelper()
	pods := kube.Client.CoreV1().Pods("default")
	target := echoPods(ctx)[0].Status.PodIP
	script := "until ping -c1 -W1 " + target + " >/dev/null; do :; done; " + readClock
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: n.Name,
		RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{
			{Name: "first", Image: cluster.AgnhostImage, Command: []string{"sh", "-c", script}}}}}
	began := time.Now()
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
	var seconds, micros int64
	_, err = fmt.Sscan(text, &seconds, &micros)
	Expect(err).NotTo(HaveOccurred(), text)
	Expect(pods.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	Eventually(func() error {
		_, err := pods.Get(ctx, name, metav1.GetOptions{})
		return err
	}).WithContext(ctx).Should(MatchError(apierrors.IsNotFound, "gone"))
	return time.Unix(seconds, micros*1000).Sub(began.Round(0)).Round(100 * time.Microsecond)
}
