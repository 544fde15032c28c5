package kube

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/drivers/kube/kubetest"
)

// journal is a log handler that keeps the messages.
type journal struct {
	mu   sync.Mutex
	said []string
}

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler       { return j }
func (j *journal) WithGroup(string) slog.Handler            { return j }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	j.said = append(j.said, text)
	return nil
}

func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.said...)
}

var _ = Describe("an outage", func() {
	It("is logged once, and so is its end, whatever the number of attempts", func() {
		api := kubetest.New()
		var away atomic.Bool
		var attempts atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !away.Load() {
				api.ServeHTTP(w, r)
				return
			}
			attempts.Add(1)
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				c.Close()
			}
		}))
		DeferCleanup(server.Close)
		DeferCleanup(api.Break)
		api.Put(peer(2))
		log := &journal{}
		s := start(server.URL, vxlanConfig, func(o *Options) { o.Log = slog.New(log) })
		synced(s)
		Expect(log.lines()).To(BeEmpty())
		away.Store(true)
		api.Skip(10)
		api.Compact()
		Eventually(func() bool { return s.View().Synced }).Should(BeFalse())
		before := attempts.Load()
		Eventually(attempts.Load).Should(BeNumerically(">", before+3))
		away.Store(false)
		api.Put(peer(3))
		Eventually(keys(s)).Should(HaveLen(2))
		synced(s)
		Expect(log.lines()).To(HaveExactElements(
			"WARN not following the API server err=watch nodes: EOF",
			"INFO following the API server again",
			"INFO reading all nodes again because=watch nodes: too old resource version (status 410)",
		))
	})

	It("ends even if the connection comes from an address that the host has lost", func() {
		api := kubetest.New()
		api.Put(plain("n1", "10.244.1.0/24"))
		var made atomic.Int32
		web := httptest.NewUnstartedServer(api)
		web.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				made.Add(1)
			}
		}
		web.Start()
		DeferCleanup(web.Close)
		DeferCleanup(api.Break)
		store := start(web.URL, vxlanConfig)
		synced(store)
		store.api.(*server).conns.Addrs = nowhere
		before := made.Load()
		for i := range 3 { // each finds that the last connection is lost
			a := attrs(1)
			a.PublicIP = netip.AddrFrom4([4]byte{192, 168, 64, byte(100 + i)})
			_, err := store.Create(ctx, keyOf(1), a, 0)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(made.Load() - before).To(BeNumerically(">=", 3))
		api.Put(peer(2)) // the watch is back as well
		Eventually(keys(store)).Should(ContainElement("10.244.2.0-24"))
	})
})

func nowhere() ([]net.Addr, error) { return nil, nil }
