package kube

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flanneld/flannel/drivers/kube/kubetest"
)

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

var _ = Describe("events of the node", func() {
	var api *kubetest.Server
	var s *Store
	var log *lines
	BeforeEach(func() {
		var url string
		api, url = serve()
		api.Put(plain("n1", "10.244.1.0/24"))
		log = &lines{}
		s = start(url, vxlanConfig, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
		synced(s)
	})
	// notify passes a notice on, and waits until its turn has come.
	notify := func(i int) {
		GinkgoHelper()
		s.Notify(Notice{Reason: "LeaseLost", Message: fmt.Sprintf("loss %d", i), Warning: true})
		Eventually(func() int { return len(s.notices) }).Should(BeZero())
	}

	It("are limited in number, whatever happens", func() {
		for i := range noticesAtOnce {
			notify(i)
		}
		Eventually(api.Reported).Should(HaveLen(noticesAtOnce))
		for i := range 10 {
			notify(noticesAtOnce + i)
		}
		s.Close()
		Expect(api.Reported()).To(HaveLen(noticesAtOnce))
	})

	It("are written when the API server is back", func() {
		var refused atomic.Int32
		api.Fail(func(r *http.Request) *metav1.Status {
			if r.Method == http.MethodPost && refused.Add(1) <= 3 {
				return kubetest.Unavailable()
			}
			return nil
		})
		notify(1)
		Eventually(api.Reported).Should(HaveLen(1))
		Expect(log.count("level=WARN")).To(BeZero())
	})

	It("are written before the daemon exits for the reason that they report", func() {
		s.Notify(Notice{Reason: "NetworkConfigRefused", Message: "malformed", Warning: true})
		s.Notify(Notice{Reason: "LeaseLost", Message: "the node object is gone", Warning: true})
		s.Close()
		Expect(api.Reported()).To(HaveLen(2))
	})

	It("do not keep a daemon from ending while the API server is away", func() {
		api.Fail(func(r *http.Request) *metav1.Status {
			if r.Method == http.MethodPost {
				return kubetest.Unavailable()
			}
			return nil
		})
		s.Notify(Notice{Reason: "LeaseLost", Message: "the node object is gone", Warning: true})
		closed := make(chan struct{})
		go func() { s.Close(); close(closed) }()
		Eventually(closed).WithTimeout(time.Minute).Should(BeClosed())
	})

	It("are only in the log if the node may not write them, and the log says so once", func() {
		api.Fail(func(r *http.Request) *metav1.Status {
			if r.Method == http.MethodPost {
				return kubetest.Forbidden("create events")
			}
			return nil
		})
		for i := range 3 {
			notify(i)
		}
		s.Close()
		Expect(log.count("has to allow: create and patch events")).To(Equal(1))
		Expect(api.Reported()).To(BeEmpty())
	})
})
