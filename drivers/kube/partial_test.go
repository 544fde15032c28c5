package kube

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/nodelease"
	"github.com/flanneld/flannel/drivers/kube/kubetest"
)

// hangsUp is no status: the server closes the connection.
const hangsUp = -1

var _ = Describe("a watch of metadata", func() {
	var (
		api  *kubetest.Server
		web  *httptest.Server
		mu   sync.Mutex
		seen []string // the requests: "read NAME", "watch metadata" or "watch whole", without streaming lists
		bad  func(request string) int
	)
	BeforeEach(func() {
		api, seen = kubetest.New(), nil
		bad = func(string) int { return 0 }
		web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			request := ""
			name, single := strings.CutPrefix(r.URL.Path, "/api/v1/nodes/")
			switch {
			case single && r.Method == http.MethodGet:
				request = "read " + name
			case strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata"):
				request = "watch metadata"
			case r.URL.Query().Get("resourceVersion") != "":
				request = "watch whole"
			}
			mu.Lock()
			if request != "" {
				seen = append(seen, request)
			}
			status := bad(request)
			mu.Unlock()
			if status == hangsUp {
				panic(http.ErrAbortHandler)
			}
			if status != 0 {
				http.Error(w, "no", status)
				return
			}
			api.ServeHTTP(w, r)
		}))
		DeferCleanup(web.Close)
		DeferCleanup(api.Break)
		api.Put(plain("n1", "10.244.1.0/24"))
		api.Put(peer(2))
	})
	requests := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
	last := func() string {
		got := requests()
		return got[len(got)-1]
	}
	fail := func(request string, status int) {
		mu.Lock()
		defer mu.Unlock()
		bad = func(r string) int {
			if r == request {
				return status
			}
			return 0
		}
	}
	mac := func(s *Store) func() string {
		return func() string { return string(s.View().Snapshot.Leases[0].Attrs.BackendData) }
	}
	annotate := func(name, data string) {
		api.Change(name, func(n *corev1.Node) { n.Annotations[annotationPrefix+"backend-data"] = data })
	}

	It("follows known nodes, and reads those that join", func() {
		s := start(web.URL, vxlanConfig)
		synced(s)
		annotate("n2", `{"VNI":1,"VtepMAC":"c6:00:00:00:00:77"}`)
		Eventually(mac(s)).Should(ContainSubstring("77"))
		Expect(requests()).To(Equal([]string{"watch metadata"}))

		joins := plain("n3")
		api.Put(joins) // as kubelet registers it, then with its pod CIDR, then with its daemon's annotations
		joins.Spec = peer(3).Spec
		api.Put(joins)
		api.Put(peer(3))
		Eventually(keys(s)).Should(Equal([]string{"10.244.2.0-24", "10.244.3.0-24"}))
		Expect(requests()).To(Equal([]string{"watch metadata", "read n3"}))

		api.Delete("n3")
		again := peer(3)
		again.Spec.PodCIDR, again.Spec.PodCIDRs = "10.244.9.0/24", []string{"10.244.9.0/24"}
		api.Put(again) // another node of that name
		Eventually(keys(s)).Should(Equal([]string{"10.244.2.0-24", "10.244.9.0-24"}))
		Expect(requests()).To(Equal([]string{"watch metadata", "read n3", "read n3"}))
	})

	It("reads its own node whenever that changes", func() {
		s := start(web.URL, vxlanConfig)
		synced(s)
		api.Change("n1", func(n *corev1.Node) {
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.64.1"}}
		})
		Eventually(func() lease.ByFamily { return s.View().Assigned.Internal }).Should(HaveField("V4.IsValid()", BeTrue()))
		Expect(requests()).To(Equal([]string{"watch metadata", "read n1"}))
	})

	It("becomes one of whole objects while many nodes join, until it ends", func() {
		s := start(web.URL, vxlanConfig)
		synced(s)
		for i := range 3 * readsAtOnce {
			api.Put(peer(10 + i))
		}
		Eventually(keys(s)).Should(HaveLen(1 + 3*readsAtOnce))
		Expect(last()).To(Equal("watch whole"))
		Expect(len(requests())).To(BeNumerically("<", 2*readsAtOnce))
		Expect(s.View().Synced).To(BeTrue())
		api.Break()
		Eventually(last).Should(Equal("watch metadata"))
	})

	for what, c := range map[string]struct {
		request string
		status  int
	}{
		"an API server that has none":         {"watch metadata", http.StatusNotAcceptable},
		"a role that may only list and watch": {"read n3", http.StatusForbidden},
		"an API server that refuses reads":    {"read n3", http.StatusTooManyRequests},
		"an API server that answers none":     {"read n3", hangsUp},
	} {
		It("is none with "+what, func() {
			fail(c.request, c.status)
			s := start(web.URL, vxlanConfig)
			synced(s)
			api.Put(peer(3))
			Eventually(keys(s)).Should(Equal([]string{"10.244.2.0-24", "10.244.3.0-24"}))
			Expect(last()).To(Equal("watch whole"))
		})
	}

	It("takes what another API server answers, which may be behind or have another node of that name", func() {
		s := start(web.URL, vxlanConfig)
		synced(s)
		api.Change("n2", func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} })
		present := api.Node("n2")
		revision, err := parseRevision([]byte(present.ResourceVersion))
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() int64 { _, seen := s.asKnown("n2"); return seen }).Should(Equal(revision))

		joins := item{node: nodelease.Node{Name: "n2", UID: "former"}, revision: revision, partial: true}
		joins.node.Values[nodelease.Marker] = "true"
		uid := func() string { n, _ := s.asKnown("n2"); return n.UID }
		before := len(requests())
		Expect(s.takePartial(ctx, joins)).To(Succeed())
		Expect(requests()).To(HaveLen(before), "the store knows that revision")
		s.mu.Lock()
		s.table.Delete("n2", revision)
		s.mu.Unlock()
		Expect(s.takePartial(ctx, joins)).To(Succeed())
		Expect(uid()).To(BeEquivalentTo(present.UID))

		joins.revision += 100
		Expect(s.takePartial(ctx, joins)).To(MatchError(errPartial))
	})
})
