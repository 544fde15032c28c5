package kube

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/kube/kubetest"
)

var ctx = context.Background()

var _ = Describe("a store on an API server", func() {
	for name, older := range map[string]bool{"with streaming lists": false, "with lists in chunks": true} {
		Context(name, func() {
			var api *kubetest.Server
			var url string
			BeforeEach(func() {
				api, url = serve()
				if older {
					api.WithoutStreaming()
				}
			})

			It("knows the addresses of its own node, and follows them", func() {
				own := plain("n1", "10.244.1.0/24")
				own.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "203.0.113.1"},
					{Type: corev1.NodeInternalIP, Address: "192.168.64.1"}, {Type: corev1.NodeHostName, Address: "n1"},
					{Type: corev1.NodeInternalIP, Address: "fd00:64::1"}}
				api.Put(own)
				api.Put(peer(2))
				s := start(url, vxlanConfig)
				internal := func() lease.ByFamily { return s.View().Assigned.Internal }
				Expect(synced(s).Assigned.Node).To(Equal("n1"))
				Expect(internal()).To(Equal(lease.ByFamily{V4: netip.MustParseAddr("192.168.64.1"),
					V6: netip.MustParseAddr("fd00:64::1")}))
				api.Change("n1", func(n *corev1.Node) { n.Status.Addresses = n.Status.Addresses[3:] })
				Eventually(internal).Should(Equal(lease.ByFamily{V6: netip.MustParseAddr("fd00:64::1")}))

				By("not losing them when it writes")
				_, err := s.Create(ctx, keyOf(1), attrs(1), 0)
				Expect(err).NotTo(HaveOccurred())
				Expect(internal()).To(Equal(lease.ByFamily{V6: netip.MustParseAddr("fd00:64::1")}))
			})

			It("shows all nodes, and follows their changes", func() {
				for i := 1; i <= 1203; i++ {
					n := peer(i % 250)
					n.Name, n.Spec = "other-"+n.Name+strings.Repeat("x", i/250), corev1.NodeSpec{}
					api.Put(n) // annotated, but without a subnet
				}
				api.Put(peer(2))
				api.Put(peer(3))
				s := start(url, vxlanConfig)
				Expect(synced(s).Snapshot.Config.Data).To(BeEquivalentTo(vxlanConfig))
				Expect(keys(s)()).To(ContainElements("10.244.2.0-24", "10.244.3.0-24"))
				chunks := 0
				for _, r := range api.Requests() {
					if strings.Contains(r, "limit=500") {
						chunks++
					}
				}
				if older {
					Expect(chunks).To(Equal(3))
				} else {
					Expect(chunks).To(BeZero())
				}
				api.Put(peer(4))
				api.Delete("n3")
				Eventually(keys(s)).Should(And(
					ContainElements("10.244.2.0-24", "10.244.4.0-24"),
					Not(ContainElement("10.244.3.0-24"))))
			})

			It("loses no peer while the server has forgotten the history (410)", func() {
				api.Put(peer(2))
				api.Put(peer(3))
				s := start(url, vxlanConfig, func(o *Options) { o.steady = time.Nanosecond })
				synced(s)
				var empty atomic.Bool
				done := make(chan struct{})
				stop := make(chan struct{})
				go func() {
					defer close(done)
					for {
						select {
						case <-s.Changed():
							empty.Store(empty.Load() || len(s.View().Snapshot.Leases) < 1)
						case <-stop:
							return
						}
					}
				}()
				for i := range 5 {
					api.Fail(func(*http.Request) *metav1.Status { return kubetest.Unavailable() })
					api.Break()
					Eventually(func() bool { return s.View().Synced }).Should(BeFalse())
					Expect(keys(s)()).To(HaveLen(2 + i))
					api.Put(peer(10 + i))
					api.Compact()
					api.Fail(nil)
					Eventually(keys(s)).Should(HaveLen(3 + i))
					synced(s)
				}
				close(stop)
				<-done
				Expect(empty.Load()).To(BeFalse())
			})

			It("resumes where a watch ended, without reading all nodes again", func() {
				api.Put(peer(2))
				s := start(url, vxlanConfig)
				synced(s)
				reads := func() (n int) {
					for _, r := range api.Requests() {
						if isList(r) {
							n++
						}
					}
					return n
				}
				before := reads()
				api.Skip(1000)
				api.Bookmark()
				api.Put(peer(3))
				Eventually(keys(s)).Should(HaveLen(2))
				api.Break()
				api.Put(peer(4))
				Eventually(keys(s)).Should(HaveLen(3))
				Expect(reads()).To(Equal(before))
			})

			It("follows a server that was restored from a backup", func() {
				api.Skip(1000)
				api.Put(peer(2))
				old := api.Node("n2")
				api.Put(peer(3))
				s := start(url, vxlanConfig)
				synced(s)
				old.ResourceVersion = "7"
				api.Restore(8, old)
				Eventually(keys(s)).Should(Equal([]string{"10.244.2.0-24"}))
				Expect(s.View().Snapshot.Revision).To(BeEquivalentTo(8))
			})
		})
	}

	It("waits for a missing API server, and says so", func() {
		api, url := serve()
		api.Fail(func(*http.Request) *metav1.Status { return kubetest.Forbidden("nodes") })
		s := start(url, vxlanConfig)
		Eventually(func() string { return s.View().Err.Error() }).
			Should(And(ContainSubstring("nodes is forbidden"), ContainSubstring("ClusterRole")))
		Expect(s.View().Assigned.Err).To(HaveOccurred())
		Expect(s.View().Snapshot).To(BeNil())
		api.Put(plain("n1", "10.244.1.0/24"))
		api.Fail(nil)
		synced(s)
		Expect(s.View().Assigned).To(HaveField("Key", keyOf(1)))
	})

	It("finds its node by its pod", func() {
		api, url := serve()
		api.Put(plain("n1", "10.244.1.0/24"))
		s := start(url, vxlanConfig, func(o *Options) {
			o.Node = ""
			o.PodNamespace = "kube-flannel"
			o.PodName = "p"
		})
		Eventually(func() string { return s.View().Err.Error() }).
			Should(ContainSubstring("get pod kube-flannel/p, to learn the name of our node"))
		api.PutPod("kube-flannel", "p", "n1")
		synced(s)
		Expect(s.View().Assigned.Key).To(Equal(keyOf(1)))
	})

	It("waits for its pod CIDR, and writes nothing before it has one (K6)", func() {
		api, url := serve()
		api.Put(plain("n1"))
		s := start(url, vxlanConfig)
		v := synced(s)
		Expect(v.Assigned.Err).To(MatchError(ContainSubstring("node n1 has no pod CIDR yet")))
		_, err := s.Create(ctx, keyOf(1), attrs(1), 0)
		Expect(err).To(MatchError(lease.ErrLost))
		Expect(api.Patches()).To(BeEmpty())
		api.Change("n1", func(n *corev1.Node) { n.Spec.PodCIDR = "10.244.1.0/24" })
		Eventually(func() lease.Key { return s.View().Assigned.Key }).Should(Equal(keyOf(1)))
	})

	It("writes only differences, to the status subresource", func() {
		api, url := serve()
		api.Put(plain("n1", "10.244.1.0/24"))
		s := start(url, vxlanConfig)
		synced(s)
		g, err := s.Create(ctx, keyOf(1), attrs(1), 0)
		Expect(err).NotTo(HaveOccurred())
		Expect(g.Reserved()).To(BeTrue())
		Expect(api.Node("n1").Annotations).To(Equal(annotationsOf(attrs(1))))
		Expect(s.View().Snapshot.Leases).To(HaveLen(1)) // at once, without waiting for the watch
		Expect(s.View().Snapshot.Revision).To(Equal(g.ModRevision))

		moved := attrs(1)
		moved.PublicIP = netip.MustParseAddr("192.168.64.77")
		_, err = s.Update(ctx, g, moved, 0)
		Expect(err).NotTo(HaveOccurred())
		_, err = s.Update(ctx, g, moved, 0) // the annotations hold these values already
		Expect(err).NotTo(HaveOccurred())
		Expect(api.Patches()).To(HaveLen(2))
		Expect(api.Patches()[1]).To(MatchJSON(
			`{"metadata":{"uid":"uid-1","annotations":{"flannel.alpha.coreos.com/public-ip":"192.168.64.77"}}}`))
	})

	It("writes both families, and neither of a node that has been replaced", func() {
		api, url := serve()
		api.Put(plain("n1", "10.244.1.0/24", "fd00:10:244:1::/64"))
		s := start(url, dualConfig)
		key := synced(s).Assigned.Key
		Expect(key.String()).To(Equal("10.244.1.0-24&fd00:10:244:1::-64"))
		_, err := s.Create(ctx, key, dual(attrs(1), 1), 0)
		Expect(err).NotTo(HaveOccurred())
		Expect(api.Node("n1").Annotations).To(Equal(annotationsOf(dual(attrs(1), 1))))

		api.Fail(func(r *http.Request) *metav1.Status {
			if r.URL.Query().Get("watch") != "" {
				return kubetest.Unavailable() // so that the store does not know
			}
			return nil
		})
		api.Break()
		Eventually(func() bool { return s.View().Synced }).Should(BeFalse())
		api.Delete("n1")
		_, err = s.Create(ctx, key, dual(attrs(1), 9), 0)
		Expect(err).To(MatchError(lease.ErrLost))
		api.Put(plain("n1", "10.244.1.0/24", "fd00:10:244:1::/64"))
		_, err = s.Create(ctx, key, dual(attrs(1), 9), 0)
		Expect(err).To(MatchError(lease.ErrLost))
		Expect(api.Node("n1").Annotations).To(BeEmpty())
	})

	It("wakes no reader for heartbeats", func() {
		api, url := serve()
		for i := 2; i < 30; i++ {
			api.Put(peer(i))
		}
		s := start(url, vxlanConfig)
		synced(s)
		drain(s)
		snap := s.View().Snapshot
		for range 20 {
			for i := 2; i < 30; i++ {
				api.Change(peer(i).Name, func(n *corev1.Node) {
					n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", LastHeartbeatTime: metav1.Now()}}
					n.Labels = map[string]string{"a": "b"}
				})
			}
		}
		s.mu.Lock()
		before := s.table.Revision()
		s.mu.Unlock()
		api.Put(peer(40)) // the store sees it after all heartbeats
		Eventually(keys(s)).Should(HaveLen(29))
		Expect(s.View().Snapshot.Revision).To(BeNumerically(">", before+500))
		Expect(before).To(Equal(snap.Revision))
	})

	It("keeps the last of thousands of changes and one signal while no reader looks (K3)", func() {
		api, url := serve()
		for i := 2; i < 12; i++ {
			api.Put(peer(i))
		}
		s := start(url, vxlanConfig)
		synced(s)
		drain(s)
		for i := range 500 {
			for j := 2; j < 12; j++ {
				api.Change(peer(j).Name, func(n *corev1.Node) { n.Annotations[annotationPrefix+"backend-data"] = strconv.Itoa(i) })
			}
		}
		api.Delete("n11")
		api.Put(peer(11)) // deleted and created again, in this order
		last, err := strconv.ParseInt(api.Node("n11").ResourceVersion, 10, 64)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() int64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.table.Revision()
		}).Should(Equal(last))
		Expect(s.Changed()).To(HaveLen(1))
		for _, l := range s.View().Snapshot.Leases {
			if l.Key == keyOf(11) {
				Expect(l.Attrs).To(Equal(attrs(11)))
			} else {
				Expect(string(l.Attrs.BackendData)).To(Equal("499"))
			}
		}
		Expect(keys(s)()).To(HaveLen(10))
	})

	It("watches nothing for alloc", func() {
		api, url := serve()
		api.Put(plain("n1", "10.244.1.0/24"))
		s := start(url, `{"Network":"10.244.0.0/16","Backend":{"Type":"alloc"}}`)
		Expect(synced(s).Assigned.Key).To(Equal(keyOf(1)))
		Expect(api.Requests()).To(Equal([]string{"GET /api/v1/nodes/n1?resourceVersion=0"}))
	})

	It("quarantines unreadable nodes, and no other", func() {
		api, url := serve()
		api.Put(peer(2))
		bad := peer(3)
		bad.Annotations[annotationPrefix+"backend-data"] = "{"
		api.Put(bad)
		long := peer(4)
		long.Annotations[annotationPrefix+"backend-data"] = `"` + strings.Repeat("x", 200_000) + `"`
		api.Put(long)
		s := start(url, vxlanConfig)
		v := synced(s)
		Expect(keys(s)()).To(Equal([]string{"10.244.2.0-24"}))
		Expect(v.Snapshot.Quarantined).To(ConsistOf(
			HaveField("Reason", `node n3: backend data "{", "": not JSON`),
			HaveField("Reason", "node n4: annotation backend-data is longer than 65536 bytes")))
	})

	It("refuses bad options", func() {
		for _, c := range []struct {
			change func(*Options)
			want   string
		}{
			{func(o *Options) { o.AnnotationPrefix = "org" }, "--kube-annotation-prefix: annotation prefix \"org\""},
			{func(o *Options) { o.Node = "" }, "which node is this? set NODE_NAME"},
			{func(o *Options) { o.ConfigFile = "/nonexistent" }, "--net-config-path: open /nonexistent"},
			{func(o *Options) { o.ConfigFile = configFile(`{`) }, "malformed JSON"},
			{func(o *Options) { o.Kubeconfig = "/nonexistent" }, "no way to the API server"},
		} {
			o := Options{URL: "http://127.0.0.1:1", Node: "n1", ConfigFile: configFile(vxlanConfig)}
			c.change(&o)
			_, err := Open(ctx, o)
			Expect(err).To(MatchError(ContainSubstring(c.want)))
		}
	})
})

// drain takes all waiting signals.
func drain(s *Store) {
	select {
	case <-s.Changed():
	default:
	}
}
