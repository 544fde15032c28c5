package kubelab_test

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/kube/kubetest"
	"github.com/flanneld/flannel/harness"
)

const vxlan = `{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan"}}`

const annotations = "flannel.alpha.coreos.com/"

// pingAll pings from every pod to every other. A node is ready with the peers
// it knows; it learns of a new one a moment later.
func (c *cluster) pingAll(ctx context.Context) {
	GinkgoHelper()
	for _, from := range c.lab.Pods() {
		for _, to := range c.lab.Pods() {
			if from == to {
				continue
			}
			source := func() (netip.Addr, error) {
				result, err := from.Ping(ctx, to.Addr(cidr.V4), harness.PingOptions{})
				return result.Source, err
			}
			Eventually(source).WithContext(ctx).Should(Equal(from.Addr(cidr.V4)), "the source is preserved")
		}
	}
}

// routes returns the destinations of the routes through the overlay's device.
func routes(ctx context.Context, n *harness.Node) []string {
	GinkgoHelper()
	state, err := n.State(ctx, dataplane.Extent{Links: []string{"flannel.1"},
		Networks: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}})
	Expect(err).NotTo(HaveOccurred())
	var out []string
	for key, r := range state.Routes.All {
		if r.Link == "flannel.1" && key.Dst.Addr().Is4() {
			out = append(out, key.Dst.String())
		}
	}
	return out
}

// patch changes a node object as a third party would.
func (c *cluster) patch(ctx context.Context, name string, change map[string]any) {
	GinkgoHelper()
	text, err := json.Marshal(change)
	Expect(err).NotTo(HaveOccurred())
	_, err = c.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func annotate(name string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotations + name: value}}}
}

var _ = Describe("flanneld with the rights of the manifest", func() {
	It("carries packets, and writes the annotations that peers read", func(ctx context.Context) {
		c := newCluster(ctx, 3, vxlan)
		c.registerAll(ctx)
		c.startAll(ctx)
		c.pingAll(ctx)
		for _, n := range c.lab.Nodes {
			object := c.node(ctx, n.Name)
			Expect(object.Annotations).To(HaveKeyWithValue(annotations+"kube-subnet-manager", "true"))
			Expect(object.Annotations).To(HaveKeyWithValue(annotations+"backend-type", "vxlan"))
			Expect(object.Annotations).To(HaveKeyWithValue(annotations+"public-ip", n.Underlay(cidr.V4).Addr().String()))
			Expect(object.Annotations[annotations+"backend-data"]).To(MatchRegexp(`^\{"VNI":1,"VtepMAC":"[0-9a-f:]{17}"\}$`))
			Eventually(func() []corev1.NodeCondition { return c.node(ctx, n.Name).Status.Conditions }).WithContext(ctx).
				Should(ContainElement(And(HaveField("Type", corev1.NodeNetworkUnavailable),
					HaveField("Status", corev1.ConditionFalse))))
		}
	}, limit)

	It("takes the interface of its InternalIP with --iface-from-node, and names one that it does not have",
		func(ctx context.Context) {
			c := newCluster(ctx, 2, vxlan)
			c.registerAll(ctx)
			n := c.lab.Nodes[0]
			second := netip.MustParsePrefix("10.99.0.1/24")
			Expect(n.Netlink().LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "other"}})).To(Succeed())
			Expect(n.SetUp("other")).To(Succeed())
			Expect(n.AddAddr("other", second)).To(Succeed())
			internal := func(a netip.Addr) {
				GinkgoHelper()
				change, err := json.Marshal(map[string]any{"status": map[string]any{
					"addresses": []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: a.String()}}}})
				Expect(err).NotTo(HaveOccurred())
				// A patch, because the daemon may be writing its annotations at the same time.
				_, err = c.Client.CoreV1().Nodes().PatchStatus(ctx, n.Name, change)
				Expect(err).NotTo(HaveOccurred())
			}
			public := func() string { return c.node(ctx, n.Name).Annotations[annotations+"public-ip"] }

			internal(second.Addr())
			Expect(n.Start("--iface-from-node")).To(Succeed())
			Expect(n.WaitReady(ctx)).To(Succeed())
			Expect(public()).To(Equal("10.99.0.1"))

			By("following a change")
			internal(n.Underlay(cidr.V4).Addr())
			Eventually(public).WithContext(ctx).Should(Equal(n.Underlay(cidr.V4).Addr().String()))

			By("naming an address that no interface has, and keeping the last one")
			internal(netip.MustParseAddr("10.99.0.77"))
			Eventually(func() string { return n.LogTail(20) }).WithContext(ctx).
				Should(ContainSubstring("no interface has 10.99.0.77, the InternalIP of node n1"))
			Expect(public()).To(Equal(n.Underlay(cidr.V4).Addr().String()))
		}, limit)

	It("waits for the API server and for its pod CIDR", func(ctx context.Context) {
		c := newCluster(ctx, 2, vxlan)
		Expect(c.Stop()).To(Succeed())
		for _, n := range c.lab.Nodes {
			Expect(n.Start()).To(Succeed())
		}
		Expect(c.Resume(ctx)).To(Succeed())
		c.register(ctx, "n1", "10.244.1.0/24")
		c.register(ctx, "n2") // the controller assigns its CIDR late
		Expect(c.lab.Nodes[0].WaitReady(ctx)).To(Succeed())
		Expect(c.lab.Nodes[1].Running()).To(BeTrue())
		c.patch(ctx, "n2", map[string]any{"spec": map[string]any{"podCIDR": "10.244.2.0/24",
			"podCIDRs": []string{"10.244.2.0/24"}}})
		for _, n := range c.lab.Nodes {
			Expect(n.WaitReady(ctx)).To(Succeed())
			_, err := n.AddPod(ctx)
			Expect(err).NotTo(HaveOccurred())
		}
		c.pingAll(ctx)
	}, limit)

	It("follows nodes that come, go and come back", func(ctx context.Context) {
		c := newCluster(ctx, 2, vxlan)
		c.registerAll(ctx)
		c.startAll(ctx)
		n1, n2 := c.lab.Nodes[0], c.lab.Nodes[1]
		have := func() []string { return routes(ctx, n1) }
		Eventually(have).WithContext(ctx).Should(ConsistOf("10.244.2.0/24"))
		Expect(n2.Stop(ctx)).To(Succeed())
		Expect(c.Client.CoreV1().Nodes().Delete(ctx, "n2", metav1.DeleteOptions{})).To(Succeed())
		Eventually(have).WithContext(ctx).Should(BeEmpty())
		c.register(ctx, "n2", "10.244.9.0/24") // another subnet under the same name
		Expect(n2.Start()).To(Succeed())
		Eventually(have).WithContext(ctx).Should(ConsistOf("10.244.9.0/24"))
	}, limit)

	It("receives of another node's heartbeats the metadata alone", func(ctx context.Context) {
		c := newCluster(ctx, 1, vxlan)
		c.registerAll(ctx)
		c.startAll(ctx)
		n := c.lab.Nodes[0]
		object := kubetest.Realistic(2)
		object.Spec.PodCIDR, object.Spec.PodCIDRs = "10.244.2.0/24", []string{"10.244.2.0/24"}
		object.Status.Addresses = nil // of which no two may be equal
		status := object.Status
		_, err := c.Client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		have := func() []string { return routes(ctx, n) }
		Eventually(have).WithContext(ctx).Should(ConsistOf("10.244.2.0/24"))
		beat := func() {
			GinkgoHelper()
			at := &status.Conditions[0].LastHeartbeatTime
			*at = metav1.NewTime(at.Add(5 * time.Minute))
			change, err := json.Marshal(map[string]any{"status": status})
			Expect(err).NotTo(HaveOccurred())
			_, err = c.Client.CoreV1().Nodes().PatchStatus(ctx, object.Name, change)
			Expect(err).NotTo(HaveOccurred())
		}
		received := func() float64 {
			GinkgoHelper()
			link, err := n.Netlink().LinkByName("eth0")
			Expect(err).NotTo(HaveOccurred())
			return float64(link.Attrs().Statistics.RxBytes)
		}
		beat()
		before := received()
		const beats = 50
		for range beats {
			beat()
		}
		Expect(c.Client.CoreV1().Nodes().Delete(ctx, object.Name, metav1.DeleteOptions{})).To(Succeed())
		Eventually(have).WithContext(ctx).Should(BeEmpty()) // all heartbeats have arrived
		each := (received() - before) / beats
		AddReportEntry("bytes received for a heartbeat", each)
		Expect(each).To(BeNumerically("<", object.Size()/2))
	}, limit)

	It("keeps the overlay through an outage of the API server", func(ctx context.Context) {
		c := newCluster(ctx, 2, vxlan)
		c.registerAll(ctx)
		c.startAll(ctx)
		c.pingAll(ctx)
		// A restart without the API server knows only the saved state.
		Eventually(func() (string, error) {
			saved, err := os.ReadFile(c.lab.Nodes[0].StateFile())
			return string(saved), err
		}).WithContext(ctx).Should(ContainSubstring("10.244.2.0"))
		Expect(c.Stop()).To(Succeed())
		Expect(c.lab.Nodes[0].Stop(ctx)).To(Succeed())
		Expect(c.lab.Nodes[0].Start()).To(Succeed())
		c.pingAll(ctx)
		Expect(c.Resume(ctx)).To(Succeed())
		for _, n := range c.lab.Nodes {
			Expect(n.WaitReady(ctx)).To(Succeed())
		}
		c.pingAll(ctx)
	}, limit)

	It("restores stripped annotations, and follows overrides", func(ctx context.Context) {
		c := newCluster(ctx, 2, vxlan)
		c.registerAll(ctx)
		c.startAll(ctx)
		value := func(name string) func() string {
			return func() string { return c.node(ctx, "n2").Annotations[annotations+name] }
		}
		for _, name := range []string{"public-ip", "backend-data", "kube-subnet-manager"} {
			before := value(name)()
			c.patch(ctx, "n2", annotate(name, nil))
			Eventually(value(name)).WithContext(ctx).Should(Equal(before))
		}
		c.pingAll(ctx)
		c.patch(ctx, "n2", annotate("public-ip-overwrite", "192.168.64.200"))
		Eventually(value("public-ip")).WithContext(ctx).Should(Equal("192.168.64.200"))
		c.patch(ctx, "n2", annotate("public-ip-overwrite", nil))
		Eventually(value("public-ip")).WithContext(ctx).Should(Equal(c.lab.Nodes[1].Underlay(cidr.V4).Addr().String()))
	}, limit)

	It("carries both families", func(ctx context.Context) {
		c := newCluster(ctx, 2,
			`{"Network":"10.244.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"vxlan"}}`)
		c.register(ctx, "n1", "10.244.1.0/24", "fd00:10:0:1::/64")
		c.register(ctx, "n2", "10.244.2.0/24", "fd00:10:0:2::/64")
		c.startAll(ctx)
		c.pingAll(ctx)
		pods := c.lab.Pods()
		_, err := pods[0].Ping(ctx, pods[1].Addr(cidr.V6), harness.PingOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, limit)

	It("lets a hostile node harm only itself", func(ctx context.Context) {
		c := newCluster(ctx, 2, vxlan)
		c.registerAll(ctx)
		c.startAll(ctx)
		// The API server reports the creation time of a node to the second. Of two claims to a subnet
		// in the same second, either may win.
		created := c.node(ctx, "n1").CreationTimestamp.Time
		Eventually(time.Now).WithContext(ctx).Should(BeTemporally(">=", created.Add(time.Second)))
		for i, cidrs := range []string{"10.244.0.0/16", "10.244.1.0/24", "172.16.0.0/24"} {
			name := []string{"whole", "overlapping", "outside"}[i]
			c.register(ctx, name, cidrs)
			c.patch(ctx, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{
				annotations + "kube-subnet-manager": "true", annotations + "backend-type": "vxlan",
				annotations + "public-ip":    "192.168.64.99",
				annotations + "backend-data": `{"VNI":1,"VtepMAC":"01:00:5e:00:00:01"}`}}})
		}
		c.register(ctx, "good", "10.244.77.0/24")
		c.patch(ctx, "good", map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			annotations + "kube-subnet-manager": "true", annotations + "backend-type": "vxlan",
			annotations + "public-ip":    "192.168.64.98",
			annotations + "backend-data": `{"VNI":1,"VtepMAC":"02:00:5e:00:00:01"}`}}})
		Eventually(func() []string { return routes(ctx, c.lab.Nodes[0]) }).WithContext(ctx).
			Should(ConsistOf("10.244.2.0/24", "10.244.77.0/24"))
		c.pingAll(ctx)
	}, limit)
})
