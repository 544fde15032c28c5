package harness_test

import (
	"context"
	"net"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/harness"
)

var _ = Describe("store", func() {
	var lab *harness.Lab
	var store *harness.Store
	BeforeEach(func(ctx context.Context) {
		lab = newLab(ctx, harness.Options{Nodes: 2, Segments: 2, IPv6: true, Config: `{"Network":"10.5.0.0/16"}`})
		store = lab.Store
	}, NodeTimeout(time.Minute))

	reachable := func(ctx context.Context, n *harness.Node, address string) error {
		ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		conn, err := n.Dial(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}

	config := func(ctx context.Context) (string, error) {
		resp, err := store.Client().Get(ctx, "/coreos.com/network/config")
		if err != nil || len(resp.Kvs) == 0 {
			return "", err
		}
		return string(resp.Kvs[0].Value), nil
	}

	It("serves every node in both families and can be cut off from one", func(ctx context.Context) {
		for _, address := range []string{"192.168.64.254:2379", "[fd00:64::254]:2379"} {
			for _, n := range lab.Nodes {
				Expect(reachable(ctx, n, address)).To(Succeed())
			}
			far := lab.Nodes[1]
			Expect(store.CutFrom(far)).To(Succeed())
			Expect(reachable(ctx, far, address)).NotTo(Succeed())
			Expect(reachable(ctx, lab.Nodes[0], address)).To(Succeed())
			Expect(store.RestoreTo(far)).To(Succeed())
			Expect(reachable(ctx, far, address)).To(Succeed())
		}
	}, limit)

	It("hears nothing from a node that is cut off", func(ctx context.Context) {
		n := lab.Nodes[0]
		var heard net.PacketConn
		Expect(store.Do(func() (err error) {
			heard, err = net.ListenPacket("udp", "192.168.64.254:9999")
			return err
		})).To(Succeed())
		DeferCleanup(heard.Close)
		conn, err := n.Dial(ctx, "udp", "192.168.64.254:9999")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		for _, word := range []string{"before", "while", "after"} {
			if word == "while" {
				Expect(store.CutFrom(n)).To(Succeed())
			}
			_, err := conn.Write([]byte(word))
			Expect(err).NotTo(HaveOccurred())
			if word == "while" {
				Expect(store.RestoreTo(n)).To(Succeed())
				continue
			}
			buf := make([]byte, 16)
			size, _, err := heard.ReadFrom(buf)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(buf[:size])).To(Equal(word))
		}
	}, limit)

	It("keeps its data over a stop and a kill, and loses it when wiped", func(ctx context.Context) {
		Expect(config(ctx)).To(Equal(`{"Network":"10.5.0.0/16"}`))
		Expect(store.Stop(ctx)).To(Succeed())
		Expect(reachable(ctx, lab.Nodes[0], "192.168.64.254:2379")).NotTo(Succeed())
		Expect(store.Start(ctx)).To(Succeed())
		Expect(config(ctx)).To(Equal(`{"Network":"10.5.0.0/16"}`))
		Expect(store.Kill()).To(Succeed())
		Expect(store.Start(ctx)).To(Succeed())
		Expect(config(ctx)).To(Equal(`{"Network":"10.5.0.0/16"}`))
		Expect(store.Wipe(ctx)).To(Succeed())
		Expect(config(ctx)).To(BeEmpty())
	}, limit)

	It("freezes and thaws", func(ctx context.Context) {
		Expect(store.Pause()).To(Succeed())
		frozen, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err := config(frozen)
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(store.Resume()).To(Succeed())
		Expect(config(ctx)).NotTo(BeEmpty())
	}, limit)

	It("lists, revokes, deletes and compacts", func(ctx context.Context) {
		grant, err := store.Client().Grant(ctx, 3600)
		Expect(err).NotTo(HaveOccurred())
		leased, raw := harness.SubnetKey("10.5.1.0-24"), harness.SubnetKey("10.5.2.0-24")
		_, err = store.Client().Put(ctx, leased, "a", clientv3.WithLease(grant.ID))
		Expect(err).NotTo(HaveOccurred())
		Expect(store.PutRaw(ctx, raw, "b")).To(Succeed())

		records, err := store.ListLeases(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(records).To(HaveLen(2))
		Expect(records[0].Key).To(Equal("/coreos.com/network/subnets/10.5.1.0-24"))
		Expect(records[0].Lease).To(Equal(int64(grant.ID)))
		Expect(records[1].Value).To(Equal("b"))
		Expect(records[1].Lease).To(BeZero())

		Expect(store.RevokeLease(ctx, raw)).To(MatchError(ContainSubstring("no such key with a lease")))
		Expect(store.RevokeLease(ctx, leased)).To(Succeed())
		Expect(store.DeleteKey(ctx, raw)).To(Succeed())
		Expect(store.DeleteKey(ctx, raw)).To(MatchError(ContainSubstring("not found")))
		Expect(store.ListLeases(ctx)).To(BeEmpty())

		Expect(store.Compact(ctx)).To(Succeed())
		_, err = store.Client().Get(ctx, raw, clientv3.WithRev(1))
		Expect(err).To(MatchError(rpctypes.ErrCompacted))
	}, limit)
})
