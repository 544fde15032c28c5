package harness_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
)

var _ = Describe("a disturbed wire", func() {
	var lab *harness.Lab
	BeforeEach(func(ctx context.Context) {
		if _, err := exec.LookPath("nft"); err != nil {
			Skip("the lab's wires want the program nft: " + err.Error())
		}
		lab = newLab(ctx, harness.Options{Nodes: 3, Segments: 2, IPv6: true})
	}, NodeTimeout(time.Minute))

	// ping sends a ping of that size from the first node to another.
	ping := func(ctx context.Context, to *harness.Node, f cidr.Family, size int) error {
		_, err := lab.Nodes[0].Ping(ctx, to.Underlay(f).Addr(),
			harness.PingOptions{Size: size, Timeout: 300 * time.Millisecond})
		return err
	}

	It("loses packets or drops large ones", func(ctx context.Context) {
		n := lab.Nodes[0]
		near := lab.Nodes[1]
		far := lab.Nodes[2]
		for _, f := range cidr.Families {
			Expect(n.Disturb(ctx, harness.Disturbance{MTU: 1000})).To(Succeed())
			Expect(ping(ctx, near, f, 1001)).To(MatchError(harness.ErrNoReply))
			Expect(ping(ctx, near, f, 1000)).To(Succeed())
			Expect(n.Disturb(ctx, harness.Disturbance{Loss: 1})).To(Succeed())
			Expect(ping(ctx, near, f, 0)).To(MatchError(harness.ErrNoReply))
			Expect(n.Disturb(ctx, harness.Disturbance{})).To(Succeed())
			Expect(ping(ctx, near, f, 1500)).To(Succeed())
			Expect(lab.DisturbSegment(ctx, 1, harness.Disturbance{Loss: 1})).To(Succeed())
			Expect(ping(ctx, far, f, 0)).To(MatchError(harness.ErrNoReply))
			Expect(ping(ctx, near, f, 0)).To(Succeed())
			Expect(lab.DisturbSegment(ctx, 1, harness.Disturbance{})).To(Succeed())
			Expect(ping(ctx, far, f, 0)).To(Succeed())
		}
		Expect(n.Disturb(ctx, harness.Disturbance{Loss: 0.5})).To(Succeed())
		Eventually(ctx, func() error { return ping(ctx, near, cidr.V4, 0) }).Should(MatchError(harness.ErrNoReply))
		Eventually(ctx, func() error { return ping(ctx, near, cidr.V4, 0) }).Should(Succeed())
		Expect(lab.DisturbSegment(ctx, 2, harness.Disturbance{})).To(MatchError("disturb segment 2: there are 2"))
	}, limit)

	It("cuts one node off from another in one direction", func(ctx context.Context) {
		for _, peer := range lab.Nodes[1:] {
			for _, f := range cidr.Families {
				n := lab.Nodes[0]
				Expect(tell(ctx, n, peer, f)).To(BeTrue())
				Expect(peer.PartFrom(ctx, n, true)).To(Succeed())
				Expect(tell(ctx, n, peer, f)).To(BeFalse())
				Expect(tell(ctx, peer, n, f)).To(BeTrue())
				Expect(peer.PartFrom(ctx, n, false)).To(Succeed())
				Expect(tell(ctx, n, peer, f)).To(BeTrue())
			}
		}
	}, limit)
})

// tell reports whether a datagram gets from one node to another.
func tell(ctx context.Context, from, to *harness.Node, f cidr.Family) bool {
	GinkgoHelper()
	at := netip.AddrPortFrom(to.Underlay(f).Addr(), 9999)
	var heard *net.UDPConn
	Expect(to.Do(func() (err error) {
		heard, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	})).To(Succeed())
	defer heard.Close()
	conn, err := from.Dial(ctx, "udp", at.String())
	Expect(err).NotTo(HaveOccurred())
	defer conn.Close()
	_, err = conn.Write([]byte("hello"))
	Expect(err).NotTo(HaveOccurred())
	Expect(heard.SetReadDeadline(time.Now().Add(500 * time.Millisecond))).To(Succeed())
	_, _, missing := heard.ReadFrom(make([]byte, 16))
	return missing == nil
}

var _ = Describe("a node's daemon", func() {
	var n *harness.Node
	BeforeEach(func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 1, DaemonArgs: []string{"--number=1"}})
		startStub(ctx, lab)
		n = lab.Nodes[0]
	}, NodeTimeout(time.Minute))

	change := func() {
		GinkgoHelper()
		Expect(n.AddAddr("eth0", prefix("10.9.9.1/24"))).To(Succeed())
		Expect(n.DelAddr("eth0", prefix("10.9.9.1/24"))).To(Succeed())
	}

	It("dies after the given number of changes to its kernel, and not before", func(ctx context.Context) {
		Expect(n.KillAtChange(1000)).To(Succeed())
		change()
		Expect(n.KillAtChange(0)).To(Succeed())
		change()
		Expect(n.WaitReady(ctx)).To(Succeed())
		Expect(n.KillAtChange(3)).To(Succeed())
		change()
		Eventually(ctx, n.Running).Should(BeFalse())
		Expect(n.Start()).To(Succeed())
		Expect(n.WaitReady(ctx)).To(Succeed())
		change() // the count no longer matters
		Expect(n.WaitReady(ctx)).To(Succeed())
	}, limit)

	It("can run beside another one", func(ctx context.Context) {
		first := n.PID()
		Expect(n.StartSecond(ctx)).To(Succeed())
		Expect(n.StartSecond(ctx)).To(MatchError("node n1: start a second daemon: it runs already"))
		Expect(n.PID()).To(Equal(first))
		Expect(n.EndSecond()).To(Succeed())
		Expect(n.WaitReady(ctx)).To(Succeed())
		Expect(n.PID()).NotTo(Equal(first))
		Expect(n.EndSecond()).To(Succeed())
	}, limit)

	It("meets a full disk", func() {
		before, err := os.ReadFile(n.SubnetFile())
		Expect(err).NotTo(HaveOccurred())
		write := func() error { return os.WriteFile(n.SubnetFile()+".new", []byte("text"), 0o600) }
		for range 2 {
			Expect(n.FillDisk(n.SubnetFile())).To(Succeed())
			Expect(write()).To(MatchError(unix.ENOSPC))
			Expect(os.ReadFile(n.SubnetFile())).To(Equal(before))
			Expect(n.FreeDisk(n.SubnetFile())).To(Succeed())
			Expect(write()).To(Succeed())
			Expect(os.Remove(n.SubnetFile() + ".new")).To(Succeed())
		}
	})
})

var _ = Describe("a store's faults", func() {
	key := harness.SubnetKey("10.5.1.0-24")

	It("demand a login from every node", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 2, StoreUsers: true, Config: `{}`})
		store, n := lab.Store, lab.Nodes[0]
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{store.Endpoint()}, Username: n.Name,
			Password: n.Name, Logger: store.Client().GetLogger(),
			DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn,
				error) {
				return n.Dial(ctx, "tcp", addr)
			})}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(client.Close)
		put := func() error {
			_, err := client.Put(ctx, key, "a")
			return err
		}
		Expect(put()).To(Succeed())
		Expect(store.ForgetToken(ctx, n)).To(Succeed())
		Expect(put()).To(Succeed())
		Expect(store.Deny(ctx, n, true)).To(Succeed())
		Expect(put()).To(MatchError(rpctypes.ErrPermissionDenied))
		Expect(store.Stop(ctx)).To(Succeed())
		Expect(store.Start(ctx)).To(Succeed())
		Expect(store.Deny(ctx, n, false)).To(Succeed())
		Expect(put()).To(Succeed())
	}, limit)

	It("leave it without a leader, and with its data", func(ctx context.Context) {
		store := newLab(ctx, harness.Options{Nodes: 1}).Store
		Expect(store.PutRaw(ctx, key, "a")).To(Succeed())
		Expect(store.LoseLeader(ctx)).To(Succeed())
		_, err := store.Client().Get(clientv3.WithRequireLeader(ctx), key)
		Expect(err).To(HaveOccurred())
		Expect(store.ElectLeader(ctx)).To(Succeed())
		Expect(store.PutRaw(ctx, key, "b")).To(Succeed())
		Expect(store.ListLeases(ctx)).To(HaveLen(1))
	}, limit)

	It("are refused by a lab built without them", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 1})
		n := lab.Nodes[0]
		for _, err := range []error{lab.Store.Deny(ctx, n, true), lab.Store.ForgetToken(ctx, n)} {
			Expect(err).To(MatchError("the lab was built without Options.StoreUsers"))
		}
		for _, err := range []error{lab.Store.Meet(n, harness.FateLost), lab.Store.Disturb(nil)} {
			Expect(err).To(MatchError("the lab was built without Options.StoreProxy"))
		}
	}, limit)
})
