package harness_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/harness"
)

var _ = Describe("a node's device", func() {
	// The objects that a daemon could have made, and one object of each kind.
	const made = `link flannel.1 type vxlan mtu 1450 mac c6:d2:32:6f:8f:44 up id 1 dev eth0 local 192.168.64.1 port 8472
addr 10.5.1.0/32 dev flannel.1
neigh 10.5.2.0 lladdr c6:d2:32:6f:8f:45 dev flannel.1
fdb c6:d2:32:6f:8f:45 dst 192.168.64.2 dev flannel.1
route 10.5.2.0/24 via 10.5.2.0 dev flannel.1 onlink
`
	var n *harness.Node
	dump := func(ctx context.Context) string {
		GinkgoHelper()
		state, err := n.State(ctx, dataplane.Extent{Links: []string{"flannel.1"}})
		Expect(err).NotTo(HaveOccurred())
		return state.Dump()
	}
	BeforeEach(func(ctx context.Context) {
		n = newLab(ctx, harness.Options{Nodes: 1}).Nodes[0]
		want, err := dataplane.ParseDump(made)
		Expect(err).NotTo(HaveOccurred())
		var ops []dataplane.Op
		add := func(o dataplane.Object) { ops = append(ops, dataplane.Op{Verb: dataplane.Create, Object: o}) }
		add(want.Links["flannel.1"])
		for o := range want.Addrs {
			add(o)
		}
		for _, o := range want.Neighs.All {
			add(o)
		}
		for _, o := range want.FDB.All {
			add(o)
		}
		for _, o := range want.Routes.All {
			add(o)
		}
		Expect(n.Apply(ctx, ops...)).To(Succeed())
		Expect(dump(ctx)).To(HavePrefix(made)) // the kernel adds a route for fe80::/64
	}, NodeTimeout(time.Minute))

	DescribeTable("loses the objects that a fault takes, and no others",
		func(ctx context.Context, fault func() error, lost ...string) {
			Expect(fault()).To(Succeed())
			after := dump(ctx)
			for _, line := range []string{"link flannel.1", "addr", "neigh", "fdb", "route 10.5.2.0/24"} {
				if len(lost) > 0 && lost[0] == line {
					Expect(after).NotTo(ContainSubstring(line))
					lost = lost[1:]
				} else {
					Expect(after).To(ContainSubstring(line))
				}
			}
			Expect(lost).To(BeEmpty())
		},
		Entry("routes flushed", limit, func() error { return n.FlushRoutes("flannel.1") }, "route 10.5.2.0/24"),
		Entry("neighbours flushed", limit, func() error { return n.FlushNeighs("flannel.1") }, "neigh"),
		Entry("forwarding entries flushed", limit, func() error { return n.FlushFDB("flannel.1") }, "fdb"),
		// A device without addresses stops taking part in IPv4.
		Entry("address removed", limit, func() error { return n.DelAddr("flannel.1", prefix("10.5.1.0/32")) }, "addr",
			"neigh", "route 10.5.2.0/24"),
		Entry("set down", limit, func() error { return n.SetDown("flannel.1") }, "neigh", "route 10.5.2.0/24"),
		Entry("deleted", limit, func() error { return n.DeleteLink("flannel.1") }, "link flannel.1", "addr", "neigh",
			"fdb", "route 10.5.2.0/24"),
	)

	It("changes in MAC and MTU", func(ctx context.Context) {
		mac := dataplane.MAC{0xc6, 0xd2, 0x32, 0x6f, 0x8f, 0x99}
		Expect(n.SetMAC("flannel.1", mac)).To(Succeed())
		Expect(n.SetMTU("flannel.1", 1300)).To(Succeed())
		Expect(dump(ctx)).To(ContainSubstring("mtu 1300 mac " + mac.String()))
	}, limit)

	It("is named when it is missing", func() {
		Expect(n.SetDown("flannel.9")).To(MatchError(ContainSubstring("host n1: find device flannel.9")))
	})

	It("refuses an op and gives the reason", func(ctx context.Context) {
		err := n.Apply(ctx, dataplane.Op{Verb: dataplane.Delete,
			Object: dataplane.Addr{Link: "flannel.1", Prefix: prefix("10.9.0.0/32")}})
		Expect(err).To(MatchError(ContainSubstring("host n1: del addr 10.9.0.0/32 dev flannel.1: ")))
	}, limit)
})
