package etcd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/etcd/embedded"
)

var _ = Describe("following etcd", func() {
	var (
		o   Options
		p   *proxy
		dir string
	)
	BeforeEach(func() {
		o = options(shared)
		dir = o.Prefix + "/subnets/"
		p = newProxy(shared.Endpoints()[0])
		o.Endpoints = []string{p.endpoint()}
		put(shared, dir+"10.5.1.0-24", value("192.0.2.1"))
		put(shared, dir+"10.5.2.0-24", value("192.0.2.2"))
	})
	// change is a change that the store has to discover by itself.
	change := func() {
		GinkgoHelper()
		remove(shared, dir+"10.5.1.0-24")
		put(shared, dir+"10.5.3.0-24", value("192.0.2.3"))
	}
	changed := []string{"10.5.2.0-24", "10.5.3.0-24"}
	unchanged := []string{"10.5.1.0-24", "10.5.2.0-24"}

	It("continues after every lost connection (E10)", func() {
		s := openSynced(o)
		for i := range 5 {
			p.cut()
			Eventually(s.View).Should(HaveField("Synced", false))
			Expect(s.View().Err).To(HaveOccurred())
			put(shared, dir+"10.5.9.0-24", value(fmt.Sprintf("192.0.2.%d", 100+i)))
			p.heal()
			eventuallySynced(s)
			Expect(leaseOf(s, "10.5.9.0-24").Attrs).To(Equal(attrs(fmt.Sprintf("192.0.2.%d", 100+i))))
		}
	})

	It("keeps the last snapshot while etcd is away, and notices (E10)", func() {
		s := openSynced(o)
		p.cut()
		change()
		Eventually(s.View).Should(HaveField("Err", MatchError(ContainSubstring("etcd: "))))
		Expect(s.View().Synced).To(BeFalse())
		Expect(subnets(s)()).To(Equal(unchanged))
		p.heal()
		eventuallySynced(s)
		Expect(subnets(s)()).To(Equal(changed))
		Expect(s.View().Err).NotTo(HaveOccurred())
	})

	It("notices silence on an open connection (E10, E14)", func() {
		o.Heartbeat, o.Timeout = 50*ms, 500*ms
		s := openSynced(o)
		p.blackhole()
		change()
		Eventually(s.View).Should(HaveField("Synced", false))
		Expect(s.View().Err).To(MatchError(Or(
			Equal("etcd: watch "+dir+": watch is silent"), ContainSubstring("deadline exceeded"))))
		Expect(subnets(s)()).To(Equal(unchanged))
		p.heal()
		Eventually(subnets(s)).Should(Equal(changed))
		eventuallySynced(s)
	})

	It("notices a watch that etcd never establishes (E14)", func() {
		o.Heartbeat, o.Timeout = time.Hour, 300*ms
		s := open(o.onWatch(p.blackhole, func(any) {}))
		Eventually(s.View).Should(HaveField("Err", MatchError("etcd: watch "+dir+": watch is silent")))
		Expect(subnets(s)()).To(Equal(unchanged))
	})

	It("does not take an idle etcd for a silent one", func() {
		o.Heartbeat, o.Timeout = 20*ms, 10*time.Second
		var answers atomic.Int64
		o, m := o.onWatch(func() {}, func(m any) {
			if resp := m.(*pb.WatchResponse); !resp.Created && len(resp.Events) == 0 {
				answers.Add(1)
			}
		}).metered()
		s := openSynced(o)
		Eventually(answers.Load).Should(BeNumerically(">=", 3))
		Expect(s.View().Synced).To(BeTrue())
		Expect(m.counts()["Txn"]).To(Equal(1))
	})

	It("leaves no stream of a former attempt behind (E16)", func() {
		o, m := o.metered()
		s := openSynced(o)
		for range 5 {
			p.cut()
			Eventually(s.View).Should(HaveField("Synced", false))
			p.heal()
			eventuallySynced(s)
		}
		Expect(m.counts()["Watch"]).To(BeNumerically(">=", 6))
		Expect(m.openStreams()).To(Equal(1))
		s.Close()
		Expect(m.openStreams()).To(BeZero())
	})

	It("reads again when the next revision has been compacted", func() {
		var before func()
		o = o.onWatch(func() {
			if before != nil {
				before()
			}
		}, func(any) {})
		var compacted int
		// Between the list and the watch, records are written, deleted and
		// compacted.
		before = func() {
			compacted++
			if compacted > 1 {
				return
			}
			change()
			revision := put(shared, dir+"10.5.2.0-24", value("192.0.2.2"))
			_, err := shared.Client().Compact(context.Background(), revision)
			Expect(err).NotTo(HaveOccurred())
		}
		s := openSynced(o)
		Eventually(subnets(s)).Should(Equal(changed))
		eventuallySynced(s)
		Expect(compacted).To(Equal(2))
	})

	It("catches up over a compaction while it was cut off", func() {
		s := openSynced(o)
		p.cut()
		change()
		revision := put(shared, dir+"10.5.2.0-24", value("192.0.2.2"))
		_, err := shared.Client().Compact(context.Background(), revision)
		Expect(err).NotTo(HaveOccurred())
		p.heal()
		Eventually(subnets(s)).Should(Equal(changed))
	})

	It("gives the reason of a refused watch", func() {
		var bad bool
		o = o.onWatch(func() {}, func(m any) {
			if resp := m.(*pb.WatchResponse); bad {
				resp.Canceled, resp.CancelReason = true, "no rights"
			}
		})
		bad = true
		s := open(o)
		Eventually(s.View).Should(HaveField("Err", MatchError("etcd: watch "+dir+": refused: no rights")))
		Expect(subnets(s)()).To(Equal(unchanged), "the snapshot stays valid")
	})

	It("reads again when a heartbeat's answer has an older revision", func() {
		o.Heartbeat = 20 * ms
		forge := make(chan struct{}, 1)
		o, m := o.onWatch(func() {}, func(m any) {
			resp := m.(*pb.WatchResponse)
			if resp.Created || len(resp.Events) > 0 {
				return
			}
			select {
			case <-forge:
				resp.Header.Revision = 1
			default:
			}
		}).metered()
		openSynced(o)
		Expect(m.counts()["Txn"]).To(Equal(1))
		forge <- struct{}{}
		Eventually(func() int { return m.counts()["Txn"] }).Should(Equal(2))
	})

	It("applies no event twice", func() {
		var first *pb.WatchResponse
		o = o.onWatch(func() {}, func(m any) {
			resp := m.(*pb.WatchResponse)
			if len(resp.Events) == 0 {
				return
			}
			if first == nil {
				first = &pb.WatchResponse{Header: resp.Header, Events: resp.Events}
				return
			}
			// The second message repeats the first, behind its own events.
			resp.Events = append(resp.Events, first.Events...)
		})
		s := openSynced(o)
		put(shared, dir+"10.5.3.0-24", value("192.0.2.3"))
		Eventually(subnets(s)).Should(HaveLen(3))
		remove(shared, dir+"10.5.3.0-24")
		put(shared, dir+"10.5.4.0-24", value("192.0.2.4"))
		Eventually(subnets(s)).Should(Equal([]string{"10.5.1.0-24", "10.5.2.0-24", "10.5.4.0-24"}))
	})
})

var _ = Describe("a server", func() {
	It("may be restarted", func(ctx SpecContext) {
		eo := embedded.Options{Dir: GinkgoT().TempDir(), UnsafeNoSync: true}
		server, err := embedded.Start(ctx, eo)
		Expect(err).NotTo(HaveOccurred())
		o := options(server)
		put(server, o.Prefix+"/subnets/10.5.1.0-24", value("192.0.2.1"))
		s := openSynced(o)
		g, err := s.Create(ctx, key("10.5.2.0-24"), attrs("192.0.2.2"), lifetime)
		Expect(err).NotTo(HaveOccurred())

		eo.ListenClient = server.Endpoints()
		Expect(server.Close()).To(Succeed())
		Eventually(s.View).Should(HaveField("Synced", false))
		startServer(ctx, eo)
		eventuallySynced(s)
		Expect(subnets(s)()).To(Equal([]string{"10.5.1.0-24", "10.5.2.0-24"}))
		_, err = s.Renew(ctx, g)
		Expect(err).NotTo(HaveOccurred())
	})

	It("may lose its data and its revisions", func(ctx SpecContext) {
		dir := filepath.Join(GinkgoT().TempDir(), "data")
		eo := embedded.Options{Dir: dir, UnsafeNoSync: true}
		server, err := embedded.Start(ctx, eo)
		Expect(err).NotTo(HaveOccurred())
		o := options(server)
		for i := range 20 {
			put(server, fmt.Sprintf("%s/subnets/10.5.%d.0-24", o.Prefix, i), value("192.0.2.1"))
		}
		put(server, o.Prefix+"/config", "{}")
		s := openSynced(o)
		Expect(subnets(s)()).To(HaveLen(20))
		was := s.View().Snapshot.Revision

		eo.ListenClient = server.Endpoints()
		Expect(server.Close()).To(Succeed())
		Expect(os.RemoveAll(dir)).To(Succeed())
		server = startServer(ctx, eo)
		put(server, o.Prefix+"/subnets/10.5.77.0-24", value("192.0.2.77"))
		Eventually(subnets(s)).Should(Equal([]string{"10.5.77.0-24"}))
		Expect(s.View().Snapshot.Revision).To(BeNumerically("<", was))
		Expect(s.View().Snapshot.Config.Revision).To(BeZero())
		// The watch goes on, far below the former revisions.
		put(server, o.Prefix+"/subnets/10.5.78.0-24", value("192.0.2.78"))
		Eventually(subnets(s)).Should(Equal([]string{"10.5.77.0-24", "10.5.78.0-24"}))
		eventuallySynced(s)
	})
})

var _ = Describe("a watch that ended", func() {
	// many puts that many records, each with a revision of its own.
	many := func(server *embedded.Server, o Options, n int) {
		GinkgoHelper()
		for i := range n {
			put(server, fmt.Sprintf("%s/subnets/10.%d.%d.0-24", o.Prefix, i/250, i%250), value("192.0.2.1"))
		}
	}

	It("resumes after a member's restart, without another list", func(ctx SpecContext) {
		eo := embedded.Options{Dir: GinkgoT().TempDir(), UnsafeNoSync: true}
		server, err := embedded.Start(ctx, eo)
		Expect(err).NotTo(HaveOccurred())
		o, m := options(server).metered()
		put(server, o.Prefix+"/config", "{}")
		many(server, o, 50)
		s := openSynced(o)
		Expect(m.lists()).To(Equal(1))
		put(server, o.Prefix+"/subnets/10.0.7.0-24", value("192.0.2.7"))
		Eventually(func() lease.Attrs { return leaseOf(s, "10.0.7.0-24").Attrs }).Should(Equal(attrs("192.0.2.7")))

		eo.ListenClient = server.Endpoints()
		Expect(server.Close()).To(Succeed())
		Eventually(s.View).Should(HaveField("Synced", false))
		server = startServer(ctx, eo)
		put(server, o.Prefix+"/subnets/10.0.99.0-24", value("192.0.2.99"))
		remove(server, o.Prefix+"/subnets/10.0.1.0-24")
		put(server, o.Prefix+"/config", `{"a":1}`)
		eventuallySynced(s)
		Eventually(subnets(s)).Should(And(ContainElement("10.0.99.0-24"), Not(ContainElement("10.0.1.0-24")), HaveLen(50)))
		Eventually(func() string { return string(s.View().Snapshot.Config.Data) }).Should(Equal(`{"a":1}`))
		Expect(m.lists()).To(Equal(1))
	})

	It("resumes after a compaction of changes that it has seen, with no recent change", func(ctx SpecContext) {
		o, m := options(shared).metered()
		p := newProxy(shared.Endpoints()[0])
		o.Endpoints, o.Heartbeat = []string{p.endpoint()}, 20*ms
		many(shared, o, 20)
		s := openSynced(o)
		last := put(shared, "/elsewhere", "x")
		Eventually(func() int64 { return s.position().leases }).Should(BeNumerically(">=", last))
		_, err := shared.Client().Compact(ctx, last)
		Expect(err).NotTo(HaveOccurred())
		p.cut()
		Eventually(s.View).Should(HaveField("Synced", false))
		p.heal()
		eventuallySynced(s)
		Expect(m.lists()).To(Equal(1))
	})

	It("is followed by one more list after a compaction of changes that it has not seen", func(ctx SpecContext) {
		o, m := options(shared).metered()
		p := newProxy(shared.Endpoints()[0])
		o.Endpoints = []string{p.endpoint()}
		many(shared, o, 20)
		s := openSynced(o)
		p.cut()
		Eventually(s.View).Should(HaveField("Synced", false))
		last := put(shared, o.Prefix+"/subnets/10.0.99.0-24", value("192.0.2.99"))
		_, err := shared.Client().Compact(ctx, last)
		Expect(err).NotTo(HaveOccurred())
		p.heal()
		eventuallySynced(s)
		Expect(subnets(s)()).To(ContainElement("10.0.99.0-24"))
		Expect(m.lists()).To(Equal(2))
	})

	It("is followed by a list if another history has passed its revision", func(ctx SpecContext) {
		for name, change := range map[string]func(*embedded.Server, string){
			"another record":  func(e *embedded.Server, dir string) { put(e, dir+"10.0.77.0-24", value("192.0.2.77")) },
			"another value":   func(e *embedded.Server, dir string) { put(e, dir+"10.0.1.0-24", value("192.0.2.77")) },
			"a lost deletion": func(*embedded.Server, string) {},
		} {
			By(name)
			dir := GinkgoT().TempDir()
			eo := embedded.Options{Dir: filepath.Join(dir, "data"), UnsafeNoSync: true}
			server, err := embedded.Start(ctx, eo)
			Expect(err).NotTo(HaveOccurred())
			o, m := options(server).metered()
			many(server, o, 20)
			eo.ListenClient = server.Endpoints()
			Expect(server.Close()).To(Succeed())
			Expect(os.CopyFS(filepath.Join(dir, "backup"), os.DirFS(eo.Dir))).To(Succeed())

			server, err = embedded.Start(ctx, eo)
			Expect(err).NotTo(HaveOccurred())
			s := openSynced(o)
			put(server, o.Prefix+"/subnets/10.0.1.0-24", value("192.0.2.5"))
			remove(server, o.Prefix+"/subnets/10.0.2.0-24")
			Eventually(subnets(s)).Should(HaveLen(19))
			Expect(server.Close()).To(Succeed())
			Eventually(s.View).Should(HaveField("Synced", false))

			restored := eo
			restored.Dir = filepath.Join(dir, "backup")
			restored.ListenClient = nil
			server, err = embedded.Start(ctx, restored)
			Expect(err).NotTo(HaveOccurred())
			change(server, o.Prefix+"/subnets/")
			for range 30 {
				put(server, "/elsewhere", "x")
			}
			Expect(server.Close()).To(Succeed())
			restored.ListenClient = eo.ListenClient
			startServer(ctx, restored)
			eventuallySynced(s)
			Expect(m.lists()).To(Equal(2), name)
			Expect(subnets(s)()).To(ContainElement("10.0.2.0-24"))
			s.Close()
		}
	})
})

var _ = Describe("a burst of changes", func() {
	It("ends in the same snapshot as a list", func() {
		o := options(shared)
		s := openSynced(o)
		var last string
		for i := range 1000 {
			last = fmt.Sprintf("%s/subnets/10.%d.%d.0-24", o.Prefix, i/250, i%250)
			put(shared, last, value("192.0.2.1"))
			if i%3 == 0 {
				remove(shared, last)
			}
		}
		last = strings.TrimPrefix(last, o.Prefix+"/subnets/")
		Eventually(func() bool {
			snap := s.View().Snapshot
			return len(snap.Leases) > 0 && snap.Leases[len(snap.Leases)-1].Key == key("10.3.98.0-24")
		}).Should(BeTrue(), last)
		remove(shared, o.Prefix+"/subnets/"+last)
		listed := openSynced(o).View().Snapshot
		Eventually(func() any { return s.View().Snapshot.Leases }).Should(Equal(listed.Leases))
	})
})
