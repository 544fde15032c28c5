package etcd

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/lease"
)

var _ = Describe("an operator", func() {
	var s *Store
	BeforeEach(func() { s = openSynced(options(shared)) })

	It("writes the config only over the one that they saw", func(ctx SpecContext) {
		config := func() lease.Document { return s.View().Snapshot.Config }
		Expect(s.SetConfig(ctx, []byte("one"), 0)).To(Succeed())
		Eventually(config).Should(HaveField("Data", BeEquivalentTo("one")))
		first := config().Revision
		Expect(s.SetConfig(ctx, []byte("two"), 0)).To(MatchError(errConfigChanged))
		Expect(s.SetConfig(ctx, []byte("two"), first)).To(Succeed())
		Expect(s.SetConfig(ctx, []byte("three"), first)).To(MatchError(errConfigChanged))
		Eventually(config).Should(HaveField("Data", BeEquivalentTo("two")))
	})

	It("makes a reservation of a lease, and a lease of a reservation", func(ctx SpecContext) {
		_, err := s.Create(ctx, key("10.5.1.0-24"), attrs("192.168.64.1"), time.Minute)
		Expect(err).NotTo(HaveOccurred())
		Eventually(subnets(s)).Should(ConsistOf("10.5.1.0-24"))
		seen := leaseOf(s, "10.5.1.0-24")
		Expect(s.Remaining(ctx, seen)).To(BeNumerically("~", time.Minute, 10*time.Second))

		Expect(s.PutRecord(ctx, seen, 0)).To(Succeed())
		Expect(s.PutRecord(ctx, seen, 0)).To(MatchError(lease.ErrConflict))
		Eventually(func() bool { return leaseOf(s, "10.5.1.0-24").Reserved() }).Should(BeTrue())
		reserved := leaseOf(s, "10.5.1.0-24")
		Expect(reserved.Attrs).To(Equal(seen.Attrs))
		Expect(s.Remaining(ctx, reserved)).To(BeZero())

		Expect(s.PutRecord(ctx, reserved, time.Minute)).To(Succeed())
		Eventually(func() bool { return leaseOf(s, "10.5.1.0-24").Reserved() }).Should(BeFalse())
	})

	It("reserves a free subnet, and no other", func(ctx SpecContext) {
		l := lease.Lease{Key: key("10.5.2.0-24"), Attrs: attrs("192.168.64.2")}
		Expect(s.PutRecord(ctx, l, 0)).To(Succeed())
		Expect(s.PutRecord(ctx, l, 0)).To(MatchError(lease.ErrConflict))
	})

	It("deletes a record that they saw, and no other", func(ctx SpecContext) {
		l := lease.Lease{Key: key("10.5.3.0-24"), Attrs: attrs("192.168.64.3")}
		Expect(s.PutRecord(ctx, l, 0)).To(Succeed())
		Eventually(subnets(s)).Should(ConsistOf("10.5.3.0-24"))
		seen := leaseOf(s, "10.5.3.0-24")
		Expect(s.PutRecord(ctx, seen, 0)).To(Succeed())
		Expect(s.DeleteRecord(ctx, seen)).To(MatchError(lease.ErrConflict))
		Eventually(func() int64 { return leaseOf(s, "10.5.3.0-24").ModRevision }).Should(BeNumerically(">", seen.ModRevision))
		Expect(s.DeleteRecord(ctx, leaseOf(s, "10.5.3.0-24"))).To(Succeed())
		Eventually(subnets(s)).Should(BeEmpty())
		Expect(s.DeleteRecord(ctx, seen)).To(MatchError(lease.ErrLost))
	})
})
