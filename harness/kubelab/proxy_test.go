package kubelab_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/harness/kubelab"
)

// The service is one pod of n2 under two names, which differ in their external
// traffic policy: one forwards packets from outside to other nodes.
const (
	serverPort = 8080

	service, nodePort           = "10.96.0.10", 30080
	localService, localNodePort = "10.96.0.11", 30081
)

// answerSize is more than TCP's first window holds, so that segments of full
// size and offloads take part.
const answerSize = 256 << 10

// serve answers each connection to the host with its source address.
func serve(h *harness.Host, addr netip.Addr) {
	GinkgoHelper()
	listener, err := h.Listen(netip.AddrPortFrom(addr, serverPort))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			seen := conn.RemoteAddr().(*net.TCPAddr).IP.String()
			_, _ = fmt.Fprintf(conn, "%s\n%s", seen, strings.Repeat("x", answerSize))
			_ = conn.Close()
		}
	}()
}

// ask connects from a host, reads the whole answer and returns the source that
// the server saw. It gives up soon: packets sent before the rules were there
// are lost for good.
func ask(ctx context.Context, from *harness.Host, addr string) (seen string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := from.Dial(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	text, err := io.ReadAll(conn)
	if err != nil {
		return "", err
	}
	seen, filler, _ := strings.Cut(string(text), "\n")
	if len(filler) != answerSize {
		return "", fmt.Errorf("%d bytes of %d arrived", len(filler), answerSize)
	}
	return seen, nil
}

// addService makes a service whose only endpoint is that pod, as the
// controllers would.
func (c *cluster) addService(ctx context.Context, name, ip string, port int32,
	policy corev1.ServiceExternalTrafficPolicy, pod *harness.Pod) {
	GinkgoHelper()
	_, err := c.Client.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIP: ip, ExternalTrafficPolicy: policy,
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(serverPort), NodePort: port}},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	ready := true
	portName := ""
	targetPort := int32(serverPort)
	_, err = c.Client.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{pod.Addr(cidr.V4).String()}, NodeName: &pod.Node.Name,
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: &portName, Port: &targetPort}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func (c *cluster) deleteService(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(c.Client.CoreV1().Services("default").Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	Expect(c.Client.DiscoveryV1().EndpointSlices("default").Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
}

// startProxy starts a kube-proxy that ends with the spec.
func (c *cluster) startProxy(ctx context.Context, n *harness.Node, mode string) *kubelab.Proxy {
	GinkgoHelper()
	p, err := c.StartProxy(ctx, n, mode, "10.244.0.0/16")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Printf("log of the kube-proxy of %s:\n%s\n", n.Name, p.LogTail())
		}
	})
	return p
}

// proxyRules returns kube-proxy's rules in the packet filter, sorted.
// kube-proxy keeps the names of unused chains for a while.
func proxyRules(ctx context.Context, n *harness.Node) string {
	GinkgoHelper()
	text, err := n.Shell(ctx, "{ iptables-save | grep KUBE || true; "+
		"nft -s list table ip kube-proxy 2>/dev/null | grep -v chain || true; } | sort -u")
	Expect(err).NotTo(HaveOccurred())
	return text
}

// setHairpin lets the bridge send a frame back to its port, as hairpinMode in
// the manifest's conflist does.
func setHairpin(n *harness.Node) {
	GinkgoHelper()
	links, err := n.Netlink().LinkList()
	Expect(err).NotTo(HaveOccurred())
	for _, l := range links {
		if l.Attrs().MasterIndex != 0 {
			Expect(n.Netlink().LinkSetHairpin(l, true)).To(Succeed())
		}
	}
}

// checkServices sends requests between every kind of source and service.
func (c *cluster) checkServices(ctx context.Context) {
	GinkgoHelper()
	n1 := c.lab.Nodes[0]
	n2 := c.lab.Nodes[1]
	outside := c.lab.Outside
	client := n1.Pods[0]
	server := n2.Pods[0]
	neighbour := n2.Pods[1]
	at := func(host fmt.Stringer, port int) string { return fmt.Sprintf("%v:%d", host, port) }
	addr := func(n *harness.Node) netip.Addr { return n.Underlay(cidr.V4).Addr() }
	const (
		overlay1 = "10.244.1.0" // of n1's VXLAN device
		bridge2  = "10.244.2.1" // of n2's bridge
	)
	for _, q := range []struct {
		what string
		from *harness.Host
		to   string
		seen string
	}{
		{"a pod to one on another node", client.Host, at(server.Addr(cidr.V4), serverPort), client.Addr(cidr.V4).String()},
		{"a pod to the outside", client.Host, at(outside.Addr(cidr.V4), serverPort), addr(n1).String()},
		{"a pod to a service on another node", client.Host, service + ":80", client.Addr(cidr.V4).String()},
		{"a pod to a service of a neighbour on its bridge", neighbour.Host, service + ":80",
			neighbour.Addr(cidr.V4).String()},
		{"a pod to itself through its service", server.Host, service + ":80", bridge2},
		{"a node to a service on another node", n1.Host, service + ":80", overlay1},
		{"a node to a service of its own pod", n2.Host, service + ":80", bridge2},
		{"outside to a node port and on to another node", outside.Host, at(addr(n1), nodePort), overlay1},
		{"outside to a node port of the pod's own node", outside.Host, at(addr(n2), nodePort), bridge2},
		{"outside to a node port that keeps the source", outside.Host, at(addr(n2), localNodePort),
			outside.Addr(cidr.V4).String()},
		{"a pod to the node port of another node", client.Host, at(addr(n2), nodePort), bridge2},
		{"a pod to the node port of its own node", client.Host, at(addr(n1), nodePort), overlay1},
		{"a pod to itself through another node", server.Host, at(addr(n1), nodePort), overlay1},
	} {
		answer := func() (string, error) { return ask(ctx, q.from, q.to) }
		Eventually(answer).WithContext(ctx).WithTimeout(20*time.Second).Should(Equal(q.seen),
			"%s: source seen by the server", q.what)
	}
}

var _ = Describe("Beside kube-proxy", func() {
	DescribeTable("services work, and neither touches the rules of the other",
		func(ctx context.Context, tool, mode string) {
			c := newCluster(ctx, 2,
				fmt.Sprintf(`{"Network":"10.244.0.0/16","EnableNFTables":%v,"Backend":{"Type":"vxlan"}}`,
					tool == "nftables"),
				"--ip-masq", "--iptables-forward-rules", "--iptables-resync=1")
			n1, n2 := c.lab.Nodes[0], c.lab.Nodes[1]
			c.registerAll(ctx)
			c.startAll(ctx)
			_, err := n2.AddPod(ctx)
			Expect(err).NotTo(HaveOccurred())
			setHairpin(n2)
			server := n2.Pods[0]
			serve(server.Host, server.Addr(cidr.V4))
			serve(c.lab.Outside.Host, c.lab.Outside.Addr(cidr.V4))
			c.addService(ctx, "everywhere", service, nodePort, corev1.ServiceExternalTrafficPolicyCluster, server)
			c.addService(ctx, "local", localService, localNodePort, corev1.ServiceExternalTrafficPolicyLocal, server)

			proxy := c.startProxy(ctx, n1, mode)
			c.startProxy(ctx, n2, mode)
			c.checkServices(ctx)

			both := func() string { return rules(ctx, n1) + proxyRules(ctx, n1) }
			repairs := func() int { return strings.Count(n1.Log(), "firewall-applied") }
			settled, repaired := both(), repairs()
			same := func(after string) {
				GinkgoHelper()
				Eventually(both).WithContext(ctx).WithTimeout(30*time.Second).Should(Equal(settled),
					"the rules of both after %s", after)
			}
			for i := range 3 {
				name := fmt.Sprintf("more-%d", i)
				c.addService(ctx, name, fmt.Sprintf("10.96.1.%d", i+1), 0, corev1.ServiceExternalTrafficPolicyCluster, server)
				Eventually(both).WithContext(ctx).Should(ContainSubstring("10.96.1.%d", i+1))
				c.deleteService(ctx, name)
				same("a service came and went")
			}
			Expect(repairs()).To(Equal(repaired), "the rules do not block flannel")

			Expect(n1.Stop(ctx)).To(Succeed())
			Expect(n1.Start()).To(Succeed())
			Expect(n1.WaitReady(ctx)).To(Succeed())
			same("a restart of flanneld")
			Expect(proxy.Stop()).To(Succeed())
			proxy = c.startProxy(ctx, n1, mode)
			same("a restart of kube-proxy")

			// It is away meanwhile: with nftables, a kube-proxy that has made its rules makes them anew an hour later
			// (Kubernetes pkg/proxy/nftables/proxier.go, doFullSync).
			Expect(proxy.Stop()).To(Succeed())
			_, err = n1.Shell(ctx, "nft flush ruleset")
			Expect(err).NotTo(HaveOccurred())
			c.startProxy(ctx, n1, mode)
			same("all rules were flushed")
			c.checkServices(ctx)
			Expect(n1.WaitReady(ctx)).To(Succeed())
		},
		Entry("flannel with iptables, kube-proxy with iptables", "iptables", "iptables", limit),
		Entry("flannel with iptables, kube-proxy with nftables", "iptables", "nftables", limit),
		Entry("flannel with nftables, kube-proxy with iptables", "nftables", "iptables", limit),
		Entry("flannel with nftables, kube-proxy with nftables", "nftables", "nftables", limit),
	)
})
