package kube

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/nodelease"
)

// clientset is an api over client-go's fake client. The fake has no resource
// versions and no chunks, so clientset numbers the changes itself.
type clientset struct {
	kubernetes.Interface
	names nodelease.Names

	mu       sync.Mutex
	revision int64
	watching watch.Interface // began before the list: the fake reports no earlier changes
}

func (c *clientset) item(n *corev1.Node) (item, error) {
	c.mu.Lock()
	c.revision++
	n.ResourceVersion = strconv.FormatInt(c.revision, 10)
	c.mu.Unlock()
	raw, err := n.Marshal()
	if err != nil {
		return item{}, err
	}
	return decodeNode(raw, c.names)
}

func (c *clientset) list(ctx context.Context, _ string, each func(item)) (page, error) {
	w, err := c.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return page{}, err
	}
	c.watching = w
	l, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return page{}, err
	}
	for i := range l.Items {
		it, err := c.item(&l.Items[i])
		if err != nil {
			return page{}, err
		}
		each(it)
	}
	return page{revision: c.revision + 1}, nil
}

func (c *clientset) stream(context.Context) (stream, error) {
	panic("the fake has no streaming list")
}

// watch returns a stream of whole objects: the fake has no metadata alone.
func (c *clientset) watch(ctx context.Context, _ int64, _, _ bool) (stream, error) {
	return clientStream{c, ctx}, nil
}

type clientStream struct {
	c   *clientset
	ctx context.Context
}

func (s clientStream) next() (string, item, error) {
	var e watch.Event
	select {
	case e = <-s.c.watching.ResultChan():
	case <-s.ctx.Done():
		return "", item{}, s.ctx.Err()
	}
	it, err := s.c.item(e.Object.(*corev1.Node).DeepCopy())
	return string(e.Type), it, err
}

func (s clientStream) Close() error { s.c.watching.Stop(); return nil }

func (c *clientset) get(ctx context.Context, name string, _ int64) (item, error) {
	n, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return item{}, err
	}
	return c.item(n)
}

func (c *clientset) patch(ctx context.Context, name string, change []byte) (item, error) {
	n, err := c.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, change, metav1.PatchOptions{}, "status")
	if err != nil {
		return item{}, err
	}
	return c.item(n)
}

func (c *clientset) nodeOfPod(ctx context.Context, namespace, name string) (string, error) {
	p, err := c.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return p.Spec.NodeName, nil
}

func (c *clientset) createEvent(ctx context.Context, namespace string, event []byte) error {
	e := &corev1.Event{}
	if err := json.Unmarshal(event, e); err != nil {
		return err
	}
	_, err := c.CoreV1().Events(namespace).Create(ctx, e, metav1.CreateOptions{})
	return err
}

func (c *clientset) patchEvent(ctx context.Context, namespace, name string, change []byte) error {
	_, err := c.CoreV1().Events(namespace).Patch(ctx, name, types.MergePatchType, change, metav1.PatchOptions{})
	return err
}

var _ = Describe("a store on client-go's fake", func() {
	var client *fake.Clientset
	var s *Store
	update := func(change func(*corev1.Node)) {
		n, err := client.CoreV1().Nodes().Get(ctx, "n2", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		n = n.DeepCopy()
		change(n)
		_, err = client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	begin := func(config string, nodes ...*corev1.Node) {
		client = fake.NewClientset()
		for i, n := range nodes {
			n.UID = types.UID("uid-" + strconv.Itoa(i))
			_, err := client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		o := Options{Node: "n1", ConfigFile: configFile(config), SetNetworkUnavailable: true}.withDefaults()
		set, err := o.setup()
		Expect(err).NotTo(HaveOccurred())
		s = newStore(ctx, o, set, &clientset{Interface: client, names: set.names})
		s.chunked = true // the fake has no streaming list
		s.start()
		DeferCleanup(s.Close)
		synced(s)
	}

	It("sees a change of either family (K1)", func() {
		n := plain("n2", "10.244.2.0/24", "fd00:10:244:2::/64")
		n.Annotations = annotationsOf(dual(attrs(2), 2))
		begin(dualConfig, plain("n1", "10.244.1.0/24", "fd00:10:244:1::/64"), n)
		published := func() lease.Attrs { return s.View().Snapshot.Leases[0].Attrs }
		update(func(n *corev1.Node) { n.Annotations[annotationPrefix+"public-ip"] = "192.168.64.77" })
		Eventually(func() string { return published().PublicIP.String() }).Should(Equal("192.168.64.77"))
		update(func(n *corev1.Node) { n.Annotations[annotationPrefix+"backend-v6-data"] = "7" })
		Eventually(func() string { return string(published().BackendV6Data) }).Should(Equal("7"))
	})

	It("sees changed pod CIDRs, and withdraws deleted and stripped nodes (K2)", func() {
		begin(vxlanConfig, plain("n1", "10.244.1.0/24"), peer(2), peer(3))
		update(func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.244.9.0/24", []string{"10.244.9.0/24"} })
		Eventually(keys(s)).Should(Equal([]string{"10.244.3.0-24", "10.244.9.0-24"}))
		update(func(n *corev1.Node) { n.Annotations = nil })
		Eventually(keys(s)).Should(Equal([]string{"10.244.3.0-24"}))
		Expect(client.CoreV1().Nodes().Delete(ctx, "n3", metav1.DeleteOptions{})).To(Succeed())
		Eventually(keys(s)).Should(BeEmpty())
	})

	It("writes annotations, and its condition among foreign ones", func() {
		own := plain("n1", "10.244.1.0/24")
		own.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		own.Annotations = map[string]string{"someone": "else's"}
		begin(vxlanConfig, own)
		_, err := s.Create(ctx, keyOf(1), attrs(1), 0)
		Expect(err).NotTo(HaveOccurred())
		s.Available()
		node := func() *corev1.Node {
			n, err := client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			return n
		}
		Eventually(func() []corev1.NodeCondition { return node().Status.Conditions }).Should(ConsistOf(
			HaveField("Type", corev1.NodeReady),
			And(
				HaveField("Type", corev1.NodeNetworkUnavailable),
				HaveField("Status", corev1.ConditionFalse),
				HaveField("Reason", "FlannelIsUp"))))
		reset := node().DeepCopy()
		for i := range reset.Status.Conditions {
			reset.Status.Conditions[i].Status = corev1.ConditionTrue
		}
		_, err = client.CoreV1().Nodes().UpdateStatus(ctx, reset, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() []corev1.NodeCondition { return node().Status.Conditions }).Should(ContainElement(
			And(HaveField("Type", corev1.NodeNetworkUnavailable), HaveField("Status", corev1.ConditionFalse))))
		want := annotationsOf(attrs(1))
		want["someone"] = "else's"
		Expect(node().Annotations).To(Equal(want))
	})

	It("follows what an operator annotates (K7)", func() {
		begin(vxlanConfig, plain("n1", "10.244.1.0/24"), plain("n2"))
		Expect(s.View().Assigned.Published.V4.IsValid()).To(BeFalse())
		n, err := client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		n = n.DeepCopy()
		n.Annotations = map[string]string{annotationPrefix + "public-ip-overwrite": "203.0.113.5"}
		_, err = client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() string { return s.View().Assigned.Published.V4.String() }).Should(Equal("203.0.113.5"))
	})

	It("writes events of its node, and counts equal ones", func() {
		begin(vxlanConfig, plain("n1", "10.244.1.0/24"))
		events := func() []corev1.Event {
			l, err := client.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			return l.Items
		}
		lost := Notice{Reason: "LeaseLost", Message: "lease 10.244.1.0-24: " + strings.Repeat("x", 2000), Warning: true}
		back := Notice{Reason: "PeersReachable", Message: "all peers answer again"}
		s.Notify(lost)
		Eventually(events).Should(ConsistOf(And(
			HaveField("InvolvedObject", corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "uid-0"}),
			HaveField("Reason", "LeaseLost"),
			HaveField("Message", And(HavePrefix("lease 10.244.1.0-24: x"), HaveSuffix("x..."), HaveLen(1024))),
			HaveField("Type", corev1.EventTypeWarning),
			HaveField("Source", corev1.EventSource{Component: "flanneld", Host: "n1"}),
			HaveField("Count", BeEquivalentTo(1)),
			HaveField("FirstTimestamp.IsZero()", BeFalse()))))
		s.Notify(back)
		Eventually(events).Should(ContainElement(And(
			HaveField("Reason", "PeersReachable"), HaveField("Type", corev1.EventTypeNormal))))
		s.Notify(lost)
		counted := func(count int) gomegatypes.GomegaMatcher {
			return ContainElement(And(HaveField("Reason", "LeaseLost"), HaveField("Count", BeEquivalentTo(count))))
		}
		Eventually(events).Should(counted(2))
		Expect(events()).To(HaveLen(2))

		By("writing a new one when the API server has forgotten the first")
		for _, e := range events() {
			Expect(client.CoreV1().Events("default").Delete(ctx, e.Name, metav1.DeleteOptions{})).To(Succeed())
		}
		s.Notify(lost)
		Eventually(events).Should(And(HaveLen(1), counted(1)))
	})
})
