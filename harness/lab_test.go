package harness_test

import (
	"context"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/harness"
)

var _ = Describe("underlay", func() {
	It("connects nodes, router and store on one segment, in both families", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 2, IPv6: true})
		Expect(lab.Nodes[0].Underlay(cidr.V4)).To(Equal(prefix("192.168.64.1/24")))
		Expect(lab.Nodes[1].Underlay(cidr.V6)).To(Equal(prefix("fd00:64::2/64")))
		for _, to := range []string{"192.168.64.2", "fd00:64::2", "192.168.64.253", "fd00:64::253", "192.168.64.254",
			"fd00:64::254"} {
			_, err := lab.Nodes[0].Ping(ctx, addr(to), harness.PingOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	}, limit)

	It("connects two segments by the router", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 3, Segments: 2, IPv6: true})
		Expect(lab.Nodes[1].Underlay(cidr.V4)).To(Equal(prefix("192.168.64.2/24")))
		Expect(lab.Nodes[2].Underlay(cidr.V4)).To(Equal(prefix("192.168.65.3/24")))
		for _, to := range []string{"192.168.65.3", "fd00:65::3"} {
			_, err := lab.Nodes[0].Ping(ctx, addr(to), harness.PingOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(lab.Router.SetDown("eth1")).To(Succeed())
		_, err := lab.Nodes[0].Ping(ctx, addr("192.168.65.3"), harness.PingOptions{})
		Expect(err).To(MatchError(harness.ErrUnreachable))
	}, limit)

	It("has the wanted MTU", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 2, MTU: 9000, IPv6: true})
		for _, f := range cidr.Families {
			to := lab.Nodes[1].Underlay(f).Addr()
			_, err := lab.Nodes[0].Ping(ctx, to, harness.PingOptions{Size: 9000, DF: true})
			Expect(err).NotTo(HaveOccurred())
			_, err = lab.Nodes[0].Ping(ctx, to, harness.PingOptions{Size: 9001, DF: true})
			Expect(err).To(MatchError(harness.ErrTooBig))
		}
	}, limit)

	It("isolates and rejoins a node", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 2, IPv6: true})
		n1, n2 := lab.Nodes[0], lab.Nodes[1]
		ping := func(f cidr.Family, o harness.PingOptions) error {
			_, err := n1.Ping(ctx, n2.Underlay(f).Addr(), o)
			return err
		}
		for _, cut := range []struct {
			do   func() error
			undo func(context.Context) error
		}{
			{n1.Isolate, n1.Rejoin}, {n1.PullCable, n1.PlugCable}, {n1.UplinkDown, n1.UplinkUp},
		} {
			for _, f := range cidr.Families {
				Expect(ping(f, harness.PingOptions{})).To(Succeed())
				Expect(cut.do()).To(Succeed())
				Expect(ping(f, harness.PingOptions{Timeout: 200 * time.Millisecond})).NotTo(Succeed())
				Expect(cut.undo(ctx)).To(Succeed())
				Expect(ping(f, harness.PingOptions{})).To(Succeed())
			}
		}
	}, limit)

	It("moves a node to another address", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 2})
		Expect(lab.Nodes[0].SetUplinkAddr(prefix("192.168.64.77/24"))).To(Succeed())
		_, err := lab.Nodes[1].Ping(ctx, addr("192.168.64.77"), harness.PingOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = lab.Nodes[1].Ping(ctx, addr("192.168.64.1"), harness.PingOptions{Timeout: 100 * time.Millisecond})
		Expect(err).To(HaveOccurred())
		routes, err := lab.Nodes[0].State(ctx, dataplane.Extent{Links: []string{"eth0"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(routes.Dump()).To(ContainSubstring("route 0.0.0.0/0 via 192.168.64.253 dev eth0"))
	}, limit)
})

var _ = Describe("node", func() {
	It("starts, freezes, stops and kills its daemon", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 1})
		n := lab.Nodes[0]
		Expect(n.Running()).To(BeFalse())
		startStub(ctx, lab)
		Expect(n.Log()).To(Equal("stub 1 runs\n"))

		Expect(n.Pause()).To(Succeed())
		frozen, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		Expect(n.WaitReady(frozen)).To(MatchError(context.DeadlineExceeded))
		Expect(n.Resume()).To(Succeed())
		Expect(n.WaitReady(ctx)).To(Succeed())

		Expect(n.Pause()).To(Succeed())
		Expect(n.Stop(ctx)).To(Succeed())
		Expect(n.ExitStatus().ExitCode()).To(Equal(0))
		startStub(ctx, lab)
		Expect(n.Kill()).To(Succeed())
		Expect(n.ExitStatus().String()).To(Equal("signal: killed"))
		Expect(n.Running()).To(BeFalse())
	}, limit)

	It("reports a daemon that dies", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 1})
		n := lab.Nodes[0]
		Expect(n.Start("--fail")).To(Succeed())
		Expect(n.WaitReady(ctx)).To(MatchError(ContainSubstring("told to fail")))
		Expect(n.ExitStatus().ExitCode()).To(Equal(1))
	}, limit)
})

var _ = Describe("pod", func() {
	It("reaches its bridge and its neighbour, unchanged in source", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 1})
		startStub(ctx, lab)
		n := lab.Nodes[0]
		a, err := n.AddPod(ctx)
		Expect(err).NotTo(HaveOccurred())
		b, err := n.AddPod(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(a.Addr(cidr.V4)).To(Equal(addr("10.5.1.2")))
		Expect(b.Addr(cidr.V6)).To(Equal(addr("fd00:10:1::3")))
		for _, bridge := range []string{"10.5.1.1", "fd00:10:1::1"} {
			_, err := a.Ping(ctx, addr(bridge), harness.PingOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		for _, f := range cidr.Families {
			result, err := a.Ping(ctx, b.Addr(f), harness.PingOptions{Count: 3})
			Expect(err).NotTo(HaveOccurred())
			Expect(result.Source).To(Equal(a.Addr(f)))
			Expect(result.RTT).To(BeNumerically(">", 0))
			Expect(a.PathMTU(ctx, b.Addr(f))).To(Equal(1450))
			sent, err := a.Transfer(ctx, b, f, 1<<20)
			Expect(err).NotTo(HaveOccurred())
			Expect(sent.Source).To(Equal(a.Addr(f)))
		}
	}, limit)

	It("follows the subnet file", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 1})
		startStub(ctx, lab)
		n := lab.Nodes[0]
		p, err := n.AddPod(ctx)
		Expect(err).NotTo(HaveOccurred())
		env := "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.9.1/24\nFLANNEL_MTU=1400\nFLANNEL_IPMASQ=false\n"
		Expect(os.WriteFile(n.SubnetFile(), []byte(env), 0o644)).To(Succeed())
		Expect(n.SyncPods()).To(Succeed())
		Expect(p.Addr(cidr.V4)).To(Equal(addr("10.5.9.2")))
		Expect(p.Addr(cidr.V6).IsValid()).To(BeFalse())
		Expect(p.MTU()).To(Equal(1400))
		_, err = p.Ping(ctx, addr("10.5.9.1"), harness.PingOptions{Size: 1400, DF: true})
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Ping(ctx, addr("10.5.1.1"), harness.PingOptions{Timeout: 100 * time.Millisecond})
		Expect(err).To(HaveOccurred())
	}, limit)

	It("counts a ping that its destination answers and does not witness", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 1})
		startStub(ctx, lab)
		p, err := lab.Nodes[0].AddPod(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(harness.EndWitness(p)).To(Succeed())
		result, err := lab.Nodes[0].Ping(ctx, p.Addr(cidr.V4), harness.PingOptions{Timeout: 100 * time.Millisecond})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Source.IsValid()).To(BeFalse())
	}, limit)

	It("finds the MTU of a path that is narrower than its device, and a changed source", func(ctx context.Context) {
		lab := newLab(ctx, harness.Options{Nodes: 2})
		startStub(ctx, lab)
		var pods []*harness.Pod
		for i, n := range lab.Nodes {
			p, err := n.AddPod(ctx)
			Expect(err).NotTo(HaveOccurred())
			pods = append(pods, p)
			peer := lab.Nodes[1-i]
			env, err := peer.SubnetEnv()
			Expect(err).NotTo(HaveOccurred())
			Expect(n.AddRoute(env.Subnet[cidr.V4].Masked(), peer.Underlay(cidr.V4).Addr(), "eth0")).To(Succeed())
		}
		Expect(pods[0].PathMTU(ctx, pods[1].Addr(cidr.V4))).To(Equal(1450))
		Expect(lab.Nodes[0].SetUnderlayMTU(1380)).To(Succeed())
		Expect(pods[0].PathMTU(ctx, pods[1].Addr(cidr.V4))).To(Equal(1380))

		result, err := lab.Nodes[0].Ping(ctx, pods[1].Addr(cidr.V4), harness.PingOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Source).To(Equal(addr("192.168.64.1")))
	}, limit)
})
