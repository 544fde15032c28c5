package specs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flanneld/flannel/harness/cluster"
)

// flannelctl runs flannelctl in the daemon's image on a node, without the API server's help.
func flannelctl(ctx context.Context, n *cluster.Node, args string) (string, error) {
	return n.Run(ctx, "sh", "-c", "/proc/$(pgrep -o -x flanneld)/root/opt/bin/flannelctl "+args)
}

// awaitPeers waits until the daemon of each of these nodes has a subnet among its peers, or until none has it.
func awaitPeers(ctx context.Context, nodes []*cluster.Node, subnet string, present bool) {
	GinkgoHelper()
	has := ContainSubstring(subnet + " ")
	if !present {
		has = Not(has)
	}
	for _, n := range nodes {
		Eventually(func(g Gomega) {
			out, err := flannelctl(ctx, n, "peers; true")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(out).To(MatchRegexp("[0-9] peers?: "))
			g.Expect(out).To(has)
		}).WithContext(ctx).Should(Succeed(), "peers of "+n.Name)
	}
}

// phantomSubnet is the pod CIDR of a node that has only its object.
const phantomSubnet = "10.244.200.0/24"

// peersKey matches the values that must differ between two nodes.
var peersKey = regexp.MustCompile(`"(VtepMAC|PublicKey)":"[^"]*"`)

// phantom returns the object of a node that exists only at the API server, with the annotations
// of another node. No pods run on it.
func phantom(like *corev1.Node, name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/os": "none"},
		Annotations: map[string]string{}}, Spec: corev1.NodeSpec{Unschedulable: true}}
	if like == nil {
		return node
	}
	node.Spec.PodCIDR = phantomSubnet
	node.Spec.PodCIDRs = []string{phantomSubnet}
	address := like.Annotations[annotation+"public-ip"]
	for key, value := range like.Annotations {
		if !strings.HasPrefix(key, annotation) || strings.Contains(key, "v6") {
			continue
		}
		value = strings.ReplaceAll(value, address, "192.168.77.200")
		value = peersKey.ReplaceAllStringFunc(value, func(pair string) string {
			if strings.Contains(pair, "VtepMAC") {
				return `"VtepMAC":"02:00:00:00:00:c8"`
			}
			return `"PublicKey":"AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="`
		})
		node.Annotations[key] = value
	}
	return node
}

const annotation = "flannel.alpha.coreos.com/"

// expectFollowing adds a node object and removes it. All daemons must follow both changes.
func expectFollowing(ctx context.Context) {
	GinkgoHelper()
	node := phantom(leaseOf(ctx, "n2"), "phantom")
	_, err := kube.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	awaitPeers(ctx, kube.Nodes, phantomSubnet, true)
	Expect(kube.Client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{})).To(Succeed())
	awaitPeers(ctx, kube.Nodes, phantomSubnet, false)
}

// traffic pings from the pod on the first node to the one on the second. The function that it
// returns ends that and expects that all pings were answered.
func traffic(ctx context.Context) (expectNoLoss func()) {
	GinkgoHelper()
	pods := echoPods(ctx)
	stop := ping(ctx, pods[0], pods[1].Status.PodIP)
	return func() {
		GinkgoHelper()
		Expect(stop().lost()).To(BeEmpty())
	}
}

// setNetwork changes members of the network config in its ConfigMap and returns the former text.
func setNetwork(ctx context.Context, change func(config map[string]any)) (former string) {
	GinkgoHelper()
	former = networkText(ctx)
	var config map[string]any
	Expect(json.Unmarshal([]byte(former), &config)).To(Succeed())
	config = maps.Clone(config)
	change(config)
	text, err := json.Marshal(config)
	Expect(err).NotTo(HaveOccurred())
	writeNetwork(ctx, string(text))
	return former
}

// networkText returns the network config as its ConfigMap has it.
func networkText(ctx context.Context) string {
	GinkgoHelper()
	return kubectl(ctx, "-n", "kube-flannel", "get", "configmap", "kube-flannel-cfg", "-o",
		`jsonpath={.data.net-conf\.json}`)
}

func writeNetwork(ctx context.Context, text string) {
	GinkgoHelper()
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"net-conf.json": text}})
	Expect(err).NotTo(HaveOccurred())
	kubectl(ctx, "-n", "kube-flannel", "patch", "configmap", "kube-flannel-cfg", "-p", string(patch))
}

// daemonCPU returns the CPU time that a node's daemon and the programs that it ran have used, to 10 ms.
func daemonCPU(ctx context.Context, n *cluster.Node) time.Duration {
	GinkgoHelper()
	out, err := n.Run(ctx, "sh", "-c", "cut -d' ' -f14-17 /proc/$(pgrep -o -x flanneld)/stat")
	Expect(err).NotTo(HaveOccurred())
	var own, system, programs, programsSystem time.Duration
	_, err = fmt.Sscan(out, &own, &system, &programs, &programsSystem)
	Expect(err).NotTo(HaveOccurred())
	const tick = 10 * time.Millisecond // on each kernel that Go supports
	return (own + system + programs + programsSystem) * tick
}

// daemonsCPU returns that of all nodes.
func daemonsCPU(ctx context.Context) []time.Duration {
	GinkgoHelper()
	var all []time.Duration
	for _, n := range kube.Nodes {
		all = append(all, daemonCPU(ctx, n))
	}
	return all
}
