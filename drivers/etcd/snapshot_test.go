package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/core/lease"
)

var _ = Describe("the snapshot of a store", func() {
	It("is the config and the leases, sorted, with revisions and TTL handles", func() {
		o := options(shared)
		config := put(shared, o.Prefix+"/config", `{"Network":"10.5.0.0/16"}`)
		id := granted(shared, 60)
		second := put(shared, o.Prefix+"/subnets/10.5.9.0-24", value("192.0.2.9"), clientv3.WithLease(id))
		first := put(shared, o.Prefix+"/subnets/10.5.10.0-24", value("192.0.2.10"))
		s := openSynced(o)

		Expect(s.View().Snapshot.History).NotTo(BeZero())
		Expect(*s.View().Snapshot).To(Equal(lease.Snapshot{
			Revision: first, History: s.View().Snapshot.History,
			Config: lease.Document{Data: []byte(`{"Network":"10.5.0.0/16"}`), Revision: config},
			Leases: []*lease.Lease{
				{Key: key("10.5.10.0-24"), Attrs: attrs("192.0.2.10"), CreateRevision: first, ModRevision: first},
				{
					Key: key("10.5.9.0-24"), Attrs: attrs("192.0.2.9"), CreateRevision: second, ModRevision: second,
					ID: int64(id),
				},
			},
		}))
	})

	It("says at which revision there was no config, and whether it saw the delete", func() {
		o := options(shared)
		put(shared, o.Prefix+"/config", "{}")
		s := openSynced(o)
		Expect(s.View().Snapshot.Config.AbsentAt).To(BeZero())
		at := remove(shared, o.Prefix+"/config")
		Eventually(func() lease.Document { return s.View().Snapshot.Config }).Should(
			Equal(lease.Document{AbsentAt: at, Deleted: true}))
		later := openSynced(o).View().Snapshot.Config
		Expect(later.AbsentAt).To(BeNumerically(">=", at))
		Expect(later.Deleted).To(BeFalse())
		put(shared, o.Prefix+"/config", "{}")
		Eventually(func() int64 { return s.View().Snapshot.Config.AbsentAt }).Should(BeZero())
	})

	It("is nil before the first read, and says so", func() {
		s := open(Options{Endpoints: []string{newProxy("http://127.0.0.1:1").endpoint()}})
		v := s.View()
		Expect(v.Snapshot).To(BeNil())
		Expect(v.Synced).To(BeFalse())
		Expect(v.Err).To(HaveOccurred())
	})
})

var _ = Describe("bad records", func() {
	var (
		o   Options
		dir string
		log *gbytes.Buffer
		s   *Store
	)
	BeforeEach(func() {
		o = options(shared)
		log = gbytes.NewBuffer()
		o.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		dir = o.Prefix + "/subnets/"
		put(shared, dir+"10.5.1.0-24", value("192.0.2.1"))
	})

	It("touch no other record, listed or watched (E1)", func() {
		put(shared, dir+"garbage", "{}")
		put(shared, dir+"10.5.2.0-24", "not JSON")
		s = openSynced(o)
		Expect(subnets(s)()).To(Equal([]string{"10.5.1.0-24"}))
		Expect(quarantined(s)()).To(Equal([]string{dir + "10.5.2.0-24", dir + "garbage"}))

		put(shared, dir+"rubbish", value("192.0.2.9"))
		put(shared, dir+"10.5.3.0-24", "")
		put(shared, dir+"10.5.4.0-24", value("192.0.2.4"))
		Eventually(subnets(s)).Should(Equal([]string{"10.5.1.0-24", "10.5.4.0-24"}))
		Expect(quarantined(s)()).To(Equal([]string{
			dir + "10.5.2.0-24", dir + "10.5.3.0-24", dir + "garbage", dir + "rubbish",
		}))
		blocked := s.View().Snapshot.Quarantined[0]
		Expect(blocked.Key).To(Equal(key("10.5.2.0-24")), "the subnet stays blocked")
		Expect(blocked.Reason).NotTo(BeEmpty())
		Expect(s.View().Snapshot.Quarantined[2].Key.IsValid()).To(BeFalse())

		remove(shared, dir+"garbage")
		remove(shared, dir+"rubbish")
		put(shared, dir+"10.5.2.0-24", value("192.0.2.2"))
		put(shared, dir+"10.5.3.0-24", value("192.0.2.3"))
		Eventually(quarantined(s)).Should(BeEmpty())
		Expect(subnets(s)()).To(HaveLen(4))
	})

	It("leave the last good value standing over a lost connection (E1)", func() {
		p := newProxy(shared.Endpoints()[0])
		o.Endpoints = []string{p.endpoint()}
		s = openSynced(o)
		p.cut()
		put(shared, dir+"10.5.1.0-24", "not JSON")
		p.heal()
		Eventually(quarantined(s)).Should(Equal([]string{dir + "10.5.1.0-24"}))
		Expect(subnets(s)()).To(Equal([]string{"10.5.1.0-24"}))
	})

	It("are reported once for each of their revisions", func() {
		lines := func() int { return strings.Count(string(log.Contents()), "record set aside") }
		p := newProxy(shared.Endpoints()[0])
		o.Endpoints = []string{p.endpoint()}
		put(shared, dir+"garbage", "1")
		s = openSynced(o)
		Expect(quarantined(s)()).To(HaveLen(1))
		Expect(lines()).To(Equal(1))
		put(shared, dir+"10.5.2.0-24", value("192.0.2.2"))
		Eventually(subnets(s)).Should(HaveLen(2))
		p.cut()
		put(shared, dir+"10.5.3.0-24", value("192.0.2.3"))
		p.heal()
		Eventually(subnets(s)).Should(HaveLen(3))
		Expect(lines()).To(Equal(1), "another event or another list adds no line")
		put(shared, dir+"garbage", "2")
		put(shared, dir+"10.5.4.0-24", value("192.0.2.4"))
		Eventually(subnets(s)).Should(HaveLen(4))
		Expect(lines()).To(Equal(2))
	})

	DescribeTable("two keys of one subnet: the canonical one counts",
		func(other string) {
			put(shared, dir+other, value("192.0.2.66"))
			s = openSynced(o)
			Expect(leaseOf(s, "10.5.1.0-24").Attrs).To(Equal(attrs("192.0.2.1")))
			Expect(s.View().Snapshot.Quarantined).To(Equal([]lease.Quarantined{{
				Raw: dir + other, Key: key("10.5.1.0-24"),
				Reason: "subnet 10.5.1.0-24 is recorded under " + dir + "10.5.1.0-24 already",
			}}))
			remove(shared, dir+"10.5.1.0-24")
			Eventually(func() lease.Attrs { return leaseOf(s, "10.5.1.0-24").Attrs }).Should(Equal(attrs("192.0.2.66")))
			Expect(quarantined(s)()).To(BeEmpty())
			put(shared, dir+"10.5.1.0-24", value("192.0.2.1"))
			Eventually(func() lease.Attrs { return leaseOf(s, "10.5.1.0-24").Attrs }).Should(Equal(attrs("192.0.2.1")))
			Expect(quarantined(s)()).To(Equal([]string{dir + other}))
		},
		Entry("with host bits", "10.5.1.7-24"),
		Entry("with a leading path", "a/10.5.1.0-24"),
		Entry("with a leading path that sorts before", "0/10.5.1.0-24"),
		Entry("with a leading path that sorts behind", "x/10.5.1.0-24"),
	)

	It("are not those of a sibling of the prefix (E12)", func() {
		s = openSynced(o)
		put(shared, o.Prefix+"/subnets-old/10.5.2.0-24", value("192.0.2.2"))
		put(shared, o.Prefix+"/subnets", "x")
		put(shared, o.Prefix+"/subnets0", "x")
		put(shared, o.Prefix+"/config-old", "x")
		put(shared, dir+"10.5.3.0-24", value("192.0.2.3"))
		want := []string{"10.5.1.0-24", "10.5.3.0-24"}
		Eventually(subnets(s)).Should(Equal(want))
		again := openSynced(o)
		Expect(subnets(again)()).To(Equal(want))
		for _, s := range []*Store{s, again} {
			Expect(quarantined(s)()).To(BeEmpty())
			config := s.View().Snapshot.Config
			Expect(config).To(Equal(lease.Document{AbsentAt: config.AbsentAt}))
		}
	})
})

var _ = Describe("the cost of reading", func() {
	It("is one request and one stream, even for fifty leases (E2)", func() {
		o, m := options(shared).metered()
		for i := range 50 {
			put(shared, fmt.Sprintf("%s/subnets/10.5.%d.0-24", o.Prefix, i), value("192.0.2.1"),
				clientv3.WithLease(granted(shared, 60)))
		}
		s := openSynced(o)
		Expect(subnets(s)()).To(HaveLen(50))
		for i := range 50 {
			remove(shared, fmt.Sprintf("%s/subnets/10.5.%d.0-24", o.Prefix, i))
		}
		Eventually(subnets(s)).Should(BeEmpty())
		Expect(m.counts()).To(Equal(map[string]int{"Txn": 1, "Watch": 1}))
	})

	It("is not changed by a renewal, which wakes no watcher", func(ctx SpecContext) {
		o := options(shared)
		s, peer := openSynced(o), openSynced(o)
		g, err := s.Create(ctx, key("10.5.1.0-24"), attrs("192.0.2.1"), lifetime)
		Expect(err).NotTo(HaveOccurred())
		Eventually(subnets(peer)).Should(HaveLen(1))
		before, err := shared.Client().Get(context.Background(), "any")
		Expect(err).NotTo(HaveOccurred())
		snap := peer.View().Snapshot

		_, err = s.Renew(ctx, g)
		Expect(err).NotTo(HaveOccurred())
		after, err := shared.Client().Get(context.Background(), "any")
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Header.Revision).To(Equal(before.Header.Revision))
		Expect(peer.View().Snapshot).To(BeIdenticalTo(snap))
	})
})
