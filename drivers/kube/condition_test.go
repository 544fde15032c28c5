package kube

import (
	"net/http"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flanneld/flannel/drivers/kube/kubetest"
)

var _ = Describe("the node condition", func() {
	var api *kubetest.Server
	var url string
	BeforeEach(func() {
		api, url = serve()
		api.Put(plain("n1", "10.244.1.0/24"))
		api.Put(peer(2))
	})
	// set gives a node's condition the status of another program; "" removes
	// it.
	set := func(node string, status corev1.ConditionStatus) {
		api.Change(node, func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			if status != "" {
				foreign := corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: status, Reason: "Foreign"}
				n.Status.Conditions = append(n.Status.Conditions, foreign)
			}
		})
	}
	condition := func() corev1.NodeCondition {
		if n := api.Node("n1"); n != nil {
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeNetworkUnavailable {
					return c
				}
			}
		}
		return corev1.NodeCondition{}
	}
	ours := And(
		HaveField("Status", corev1.ConditionFalse),
		HaveField("Reason", "FlannelIsUp"),
		HaveField("Message", "Flannel is running on this node"))
	// seen waits until the store has seen all changes so far.
	seen := func(s *Store) {
		GinkgoHelper()
		api.Put(peer(40))
		Eventually(keys(s)).Should(ContainElement("10.244.40.0-24"))
	}

	It("is retried until it is written, and written again on a new node object (K5)", func() {
		var refused atomic.Int32
		api.Fail(func(r *http.Request) *metav1.Status {
			if r.Method == http.MethodPatch && refused.Add(1) <= 3 {
				return kubetest.Unavailable()
			}
			return nil
		})
		s := start(url, vxlanConfig)
		synced(s)
		s.Available()
		Eventually(condition).Should(ours)
		api.Delete("n1")
		api.Put(plain("n1", "10.244.1.0/24"))
		Eventually(condition).Should(ours)
	})

	for name, status := range map[string]corev1.ConditionStatus{
		"true": corev1.ConditionTrue, "unknown": corev1.ConditionUnknown, "gone": "",
	} {
		It("is written again when another program has made it "+name+", time after time", func() {
			s := start(url, vxlanConfig)
			synced(s)
			s.Available()
			Eventually(condition).Should(ours)
			for range 3 {
				set("n1", status)
				Eventually(condition).Should(ours)
			}
			Expect(api.Patches()).To(HaveLen(4))
		})
	}

	It("is written again after another program made it true while the server was away", func() {
		s := start(url, vxlanConfig)
		synced(s)
		s.Available()
		Eventually(condition).Should(ours)
		api.Fail(func(*http.Request) *metav1.Status { return kubetest.Unavailable() })
		api.Break()
		Eventually(func() bool { return s.View().Synced }).Should(BeFalse())
		set("n1", corev1.ConditionTrue)
		api.Compact()
		api.Fail(nil)
		Eventually(condition).Should(ours)
	})

	It("is left alone if it is right already, and on other nodes", func() {
		set("n1", corev1.ConditionFalse)
		s := start(url, vxlanConfig)
		synced(s)
		s.Available()
		set("n1", corev1.ConditionFalse) // a heartbeat
		set("n2", corev1.ConditionTrue)
		seen(s)
		s.Close()
		Expect(api.Patches()).To(BeEmpty())
	})

	It("is not written before the network is up, or without the option", func() {
		s := start(url, vxlanConfig)
		silent := start(url, vxlanConfig, func(o *Options) { o.SetNetworkUnavailable = false })
		synced(s)
		synced(silent)
		silent.Available()
		set("n1", corev1.ConditionTrue)
		seen(s)
		seen(silent)
		s.Close()
		silent.Close()
		Expect(api.Patches()).To(BeEmpty())
	})
})
