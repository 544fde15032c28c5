package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flanneld/flannel/core/lease"
)

const lifetime = time.Hour

// epoch is the fixed time of an injected clock.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

var _ = Describe("a grant", func() {
	var (
		o   Options
		raw string
		s   *Store
		k   lease.Key
	)
	BeforeEach(func() {
		o = options(shared)
		o.Now = func() time.Time { return epoch }
		raw = o.Prefix + "/subnets/10.5.1.0-24"
		k = key("10.5.1.0-24")
		s = openSynced(o)
	})
	create := func(ctx context.Context) lease.Grant {
		GinkgoHelper()
		g, err := s.Create(ctx, k, attrs("192.0.2.1"), lifetime)
		Expect(err).NotTo(HaveOccurred())
		return g
	}

	It("is refused if the key is taken, and leaves no TTL handle behind", func(ctx SpecContext) {
		holder := put(shared, raw, value("192.0.2.2"))
		put(shared, "/elsewhere", "x") // etcd's revision moves on, those of snapshots do not
		before, err := handles(shared)()
		Expect(err).NotTo(HaveOccurred())

		_, err = s.Create(ctx, k, attrs("192.0.2.1"), lifetime)
		Expect(err).To(MatchError(lease.ErrConflict))
		Expect(err).To(MatchError("create lease of 10.5.1.0-24: subnet 10.5.1.0-24: " +
			"record belongs to another node or has changed"))
		var conflict *lease.ConflictError
		Expect(errors.As(err, &conflict)).To(BeTrue())
		Expect(*conflict).To(Equal(lease.ConflictError{Key: k, Revision: holder}))
		Eventually(s.View).Should(HaveField("Snapshot.Revision", BeNumerically(">=", conflict.Revision)))
		data, _ := get(shared, raw)
		Expect(string(data)).To(Equal(value("192.0.2.2")))
		Eventually(handles(shared)).Should(Equal(before))
	})

	DescribeTable("is refused before it writes a record that no reader could parse",
		func(ctx SpecContext, k lease.Key, ttl time.Duration, want string) {
			_, err := s.Create(ctx, k, attrs("192.0.2.1"), ttl)
			Expect(err).To(MatchError(want))
		},
		Entry("no subnet", lease.Key{}, lifetime,
			`create lease of 0.0.0.0-0: key "0.0.0.0-0": the whole IPv4 space is no subnet`),
		Entry("no TTL", lease.Key{V4: key("10.5.1.0-24").V4}, time.Duration(0),
			`create lease of 10.5.1.0-24: TTL 0s is not positive`),
	)

	It("is won by exactly one of many", func(ctx SpecContext) {
		const stores, keys = 30, 4
		var (
			wg   sync.WaitGroup
			mu   sync.Mutex
			wins = map[lease.Key]int64{}
		)
		for i := range stores {
			s := open(o)
			wg.Go(func() {
				defer GinkgoRecover()
				for j := range keys {
					k := key(fmt.Sprintf("10.5.%d.0-24", (i+j)%keys))
					g, err := s.Create(ctx, k, attrs(fmt.Sprintf("192.0.2.%d", i)), lifetime)
					if err != nil {
						Expect(err).To(MatchError(lease.ErrConflict))
						continue
					}
					mu.Lock()
					Expect(wins).NotTo(HaveKey(k))
					wins[k] = g.ModRevision
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		Expect(wins).To(HaveLen(keys))
		Eventually(subnets(s)).Should(HaveLen(keys))
		for _, l := range s.View().Snapshot.Leases {
			Expect(l.ModRevision).To(Equal(wins[l.Key]))
		}
	})

	It("of unknown outcome is cleaned up", func(ctx SpecContext) {
		lost := status.Error(codes.Unavailable, "the answer got lost")
		var armed bool
		s := openSynced(o.onUnary("Txn", func(call func() error) error {
			if err := call(); err != nil || !armed {
				return err
			}
			return lost
		}))
		armed = true
		before, err := handles(shared)()
		Expect(err).NotTo(HaveOccurred())
		_, err = s.Create(ctx, k, attrs("192.0.2.1"), lifetime)
		Expect(err).To(HaveOccurred())
		Expect(err).NotTo(Or(MatchError(lease.ErrConflict), MatchError(lease.ErrLost)))
		Eventually(func() []byte { data, _ := get(shared, raw); return data }).Should(BeNil())
		Eventually(handles(shared)).Should(Equal(before))
	})

	It("is lost together with its TTL handle", func(ctx SpecContext) {
		g := create(ctx)
		_, err := shared.Client().Revoke(ctx, clientv3.LeaseID(g.ID))
		Expect(err).NotTo(HaveOccurred())
		_, err = s.Renew(ctx, g)
		Expect(err).To(MatchError(lease.ErrLost))
		Expect(err).To(MatchError("renew lease of 10.5.1.0-24: lease has run out or was deleted"))
		_, err = s.Update(ctx, g, attrs("192.0.2.2"), lifetime)
		Expect(err).To(MatchError(lease.ErrLost))
	})

	It("keeps its TTL handle when only the attributes change", func(ctx SpecContext) {
		g := create(ctx)
		updated, err := s.Update(ctx, g, attrs("192.0.2.2"), lifetime)
		Expect(err).NotTo(HaveOccurred())
		want := g
		want.Attrs, want.ModRevision = attrs("192.0.2.2"), updated.ModRevision
		Expect(updated).To(Equal(want))
		Expect(updated.ModRevision).To(BeNumerically(">", g.ModRevision))
		data, id := get(shared, raw)
		Expect(string(data)).To(MatchJSON(value("192.0.2.2")))
		Expect(id).To(Equal(g.ID))
	})

	It("moves to a new TTL handle when the TTL changes, and gives the old one back", func(ctx SpecContext) {
		g := create(ctx)
		before, err := handles(shared)()
		Expect(err).NotTo(HaveOccurred())
		updated, err := s.Update(ctx, g, attrs("192.0.2.1"), 2*lifetime)
		Expect(err).NotTo(HaveOccurred())
		Expect(updated.ID).NotTo(Equal(g.ID))
		Expect(updated.TTL).To(Equal(2 * lifetime))
		Expect(updated.Expires).To(Equal(epoch.Add(2 * lifetime)))
		_, id := get(shared, raw)
		Expect(id).To(Equal(updated.ID))
		Eventually(handles(shared)).Should(Equal(before))
	})

	It("spares other records that hang on its old TTL handle", func(ctx SpecContext) {
		before, err := handles(shared)()
		Expect(err).NotTo(HaveOccurred())
		other := o.Prefix + "/subnets/10.5.2.0-24"
		id := granted(shared, 3600)
		put(shared, other, value("192.0.2.2"), clientv3.WithLease(id))
		Expect(s.abandon(ctx, id)).To(Succeed())
		data, _ := get(shared, other)
		Expect(data).NotTo(BeNil())
		remove(shared, other)
		Expect(s.abandon(ctx, id)).To(Succeed())
		Expect(handles(shared)()).To(Equal(before))
	})

	It("without a revision is refused", func(ctx SpecContext) {
		own := lease.Grant{Lease: lease.Lease{Key: k, Attrs: attrs("192.0.2.1")}}
		_, err := s.Update(ctx, own, attrs("192.0.2.1"), lifetime)
		Expect(err).To(MatchError("update lease of 10.5.1.0-24: grant without a revision"))
		data, _ := get(shared, raw)
		Expect(data).To(BeNil())
	})

	It("is released with its TTL handle, once", func(ctx SpecContext) {
		before, err := handles(shared)()
		Expect(err).NotTo(HaveOccurred())
		g := create(ctx)
		Expect(s.Release(ctx, g)).To(Succeed())
		data, _ := get(shared, raw)
		Expect(data).To(BeNil())
		Eventually(handles(shared)).Should(Equal(before))
		Expect(s.Release(ctx, g)).To(Succeed())
	})

	It("under another spelling of its key is changed under that key", func(ctx SpecContext) {
		other := o.Prefix + "/subnets/old/10.5.1.0-24"
		put(shared, other, value("192.0.2.1"), clientv3.WithLease(granted(shared, 60)))
		Eventually(subnets(s)).Should(HaveLen(1))
		g, err := s.Update(ctx, lease.Grant{Lease: leaseOf(s, "10.5.1.0-24")}, attrs("192.0.2.2"), lifetime)
		Expect(err).NotTo(HaveOccurred())
		data, id := get(shared, other)
		Expect(string(data)).To(MatchJSON(value("192.0.2.2")))
		Expect(id).To(Equal(g.ID))
		data, _ = get(shared, raw)
		Expect(data).To(BeNil())
		Expect(s.Release(ctx, g)).To(Succeed())
		data, _ = get(shared, other)
		Expect(data).To(BeNil())
	})
})
