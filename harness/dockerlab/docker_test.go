package dockerlab_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/harness/dockerlab"
	"github.com/flanneld/flannel/internal/suite"
)

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		dockerlab.Reexec()
		victim()
		return
	}
	dockerlab.Main(m)
}

func TestDocker(t *testing.T) {
	if os.Getenv(dockerlab.ProgramsEnv) == "" {
		t.Skip("no Docker engine: make test-docker downloads one from Debian and runs this")
	}
	if err := dockerlab.Missing(); err != nil {
		t.Skip(err.Error())
	}
	suite.Run(t, "docker")
}

// limit is the time limit of a spec; a correct spec never reaches it.
const limit = SpecTimeout(3 * time.Minute)

// container is the name of the one container of each node.
const container = "web"

// site is shared by the specs.
type site struct {
	*dockerlab.Site
	lab *harness.Lab
}

// options say where the programs are.
func options(tool string) dockerlab.Options {
	return dockerlab.Options{Programs: os.Getenv(dockerlab.ProgramsEnv), Tool: tool, Host: "../../deploy/host"}
}

// runContainer starts the container of an engine.
func runContainer(ctx context.Context, e *dockerlab.Engine) error {
	_, err := e.Docker(ctx, "run", "--detach", "--restart=always", "--stop-signal=KILL", "--name="+container,
		dockerlab.Image)
	return err
}

// newSite builds a lab of three nodes with an engine each, and a container on each engine.
// On the first node flanneld has packets forwarded, as the packages set it up, on the
// others dockerd. The first two engines have their options from the script, the third from
// flannelctl. Containers of the second go on without their dockerd.
func newSite(ctx context.Context) *site {
	GinkgoHelper()
	daemon, err := harness.BuildDaemon(ctx)
	Expect(err).NotTo(HaveOccurred())
	tool, err := harness.BuildTool(ctx)
	Expect(err).NotTo(HaveOccurred())
	lab, err := harness.New(ctx, harness.Options{Nodes: 3, Outside: true, Daemon: daemon, LeaseTTL: time.Minute,
		Config:     `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`,
		DaemonArgs: []string{"--ip-masq", "--iptables-forward-rules"}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(lab.Close)
	for i, n := range lab.Nodes {
		Expect(n.Sysctl("ipv4/ip_forward", "0")).To(Succeed())
		Expect(n.Start(fmt.Sprintf("--ip-forward=%t", i == 0))).To(Succeed())
	}
	engines, err := dockerlab.New(ctx, lab, options(tool))
	Expect(err).NotTo(HaveOccurred())
	s := &site{engines, lab}
	DeferCleanup(func() { Expect(s.Close()).To(Succeed()) })
	s.Engines[1].Options = "--live-restore"
	s.Engines[2].Tool = true
	for _, e := range s.Engines {
		Eventually(e.Node.SubnetFile).WithContext(ctx).Should(BeAnExistingFile())
		Expect(e.Start(ctx)).To(Succeed())
		Expect(e.Node.WaitReady(ctx)).To(Succeed())
		Expect(runContainer(ctx, e)).To(Succeed())
	}
	return s
}

// subnet returns the subnet of a node, with the address of its bridge, and the MTU.
func subnet(e *dockerlab.Engine) (netip.Prefix, string) {
	GinkgoHelper()
	env, err := e.Node.SubnetEnv()
	Expect(err).NotTo(HaveOccurred())
	return env.Subnet[cidr.V4], fmt.Sprint(env.MTU)
}

// addr returns the address of the container of an engine, which is in the node's subnet.
func addr(ctx context.Context, e *dockerlab.Engine) netip.Addr {
	GinkgoHelper()
	var found netip.Addr
	Eventually(func() (err error) {
		found, err = e.Addr(ctx, container) // a container that restarts has none
		return err
	}).WithContext(ctx).Should(Succeed())
	within, _ := subnet(e)
	Expect(within.Contains(found)).To(BeTrue(), "the container of %s has %s, its node %s", e.Node.Name, found, within)
	return found
}

// ask is a script that says from which address the container at an address sees this one's
// requests, and whether packets of full size reach it and its file arrives whole.
const ask = `echo $(timeout 9 wget -qO- http://%[1]s` + dockerlab.Asker + `) \
	$(ping -W 2 -c 1 -s 1422 %[1]s >/ping.one && echo full) \
	$(timeout 9 wget -qO- http://%[1]s` + dockerlab.File + ` | cmp - ` + dockerlab.File + ` && echo whole)
`

// reach checks that each container reaches each other by its address, with its own address.
func (s *site) reach(ctx context.Context) {
	GinkgoHelper()
	addrs := map[*dockerlab.Engine]netip.Addr{}
	for _, e := range s.Engines {
		addrs[e] = addr(ctx, e)
	}
	for _, from := range s.Engines {
		_, mtu := subnet(from)
		Expect(mtu).To(Equal("1450")) // 50 for vxlan
		script, want := "cat /sys/class/net/eth0/mtu\n", mtu
		for _, to := range s.Engines {
			if to != from {
				script += fmt.Sprintf(ask, addrs[to])
				want += "\n" + addrs[from].String() + " full whole"
			}
		}
		Eventually(func() (string, error) {
			return from.Exec(ctx, container, "sh", "-c", script)
		}).WithContext(ctx).Should(Equal(want), "from %s", from.Node.Name)
	}
}

// flow is a stream of pings between two containers.
type flow struct{ from *dockerlab.Engine }

// pings starts a stream.
func pings(ctx context.Context, from, to *dockerlab.Engine) flow {
	GinkgoHelper()
	_, err := from.Docker(ctx, "exec", "--detach", container, "sh", "-c",
		"exec ping -i 0.02 "+addr(ctx, to).String()+" >/ping.log")
	Expect(err).NotTo(HaveOccurred())
	f := flow{from}
	f.more(ctx)
	return f
}

// more waits for further answers.
func (f flow) more(ctx context.Context) {
	GinkgoHelper()
	count := func() (int, error) {
		out, err := f.from.Exec(ctx, container, "cat", "/ping.log")
		return strings.Count(out, "bytes from"), err
	}
	before, err := count()
	Expect(err).NotTo(HaveOccurred())
	Eventually(count).WithContext(ctx).Should(BeNumerically(">", before+10))
}

// end ends the stream, which has lost nothing.
func (f flow) end(ctx context.Context) {
	GinkgoHelper()
	_, err := f.from.Exec(ctx, container, "killall", "-INT", "ping")
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() (string, error) {
		return f.from.Exec(ctx, container, "cat", "/ping.log")
	}).WithContext(ctx).Should(ContainSubstring("packets transmitted"))
	Expect(f.from.Exec(ctx, container, "cat", "/ping.log")).To(ContainSubstring(" 0% packet loss"))
}

// move gives a node another subnet: while its daemon was away its lease ran out, and another
// host took the subnet.
func (s *site) move(ctx context.Context, e *dockerlab.Engine) {
	GinkgoHelper()
	former, _ := subnet(e)
	Expect(e.Node.Stop(ctx)).To(Succeed())
	key := harness.SubnetKey(strings.ReplaceAll(former.Masked().String(), "/", "-"))
	Expect(s.lab.Store.DeleteKey(ctx, key)).To(Succeed())
	Expect(s.lab.Store.PutRaw(ctx, key, `{"PublicIP":"192.168.64.77","BackendType":"vxlan",`+
		`"BackendData":{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}}`)).To(Succeed())
	Expect(e.Node.Start()).To(Succeed())
	Expect(e.Node.WaitReady(ctx)).To(Succeed())
	now, _ := subnet(e)
	Expect(now).NotTo(Equal(former))
}

var _ = Describe("Docker engines on three nodes", Ordered, func() {
	var s *site

	BeforeAll(func(ctx context.Context) { s = newSite(ctx) }, NodeTimeout(3*time.Minute))

	AfterEach(func() {
		if CurrentSpecReport().Failed() && s != nil {
			for _, e := range s.Engines {
				GinkgoWriter.Printf("flanneld's log of %s:\n%s\ndockerd's:\n%s\n", e.Node.Name, e.Node.LogTail(20), e.LogTail())
			}
		}
	})

	It("give containers the subnet of their node", func(ctx context.Context) {
		for _, e := range s.Engines {
			within, mtu := subnet(e)
			options := fmt.Sprintf(" --bip=%s --ip-masq=false --mtu=%s", within, mtu)
			Expect(e.Variables(ctx)).To(Equal("FLANNEL_DOCKER_OPTS=\"" + options + "\"\n"))
		}
		s.reach(ctx)
	}, limit)

	It("drop forwarded packets where they were the first to allow any, except the network's", func(ctx context.Context) {
		for i, policy := range []string{"ACCEPT", "DROP", "DROP"} {
			Expect(s.Engines[i].Node.Shell(ctx, "iptables -S FORWARD")).To(HavePrefix("-P FORWARD " + policy))
		}
	}, limit)

	It("leave it to flanneld to give packets to the outside the address of the node", func(ctx context.Context) {
		e := s.Engines[0]
		at := netip.AddrPortFrom(s.lab.Outside.Addr(cidr.V4), 9000)
		listener, err := s.lab.Outside.Listen(at)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(listener.Close)
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = fmt.Fprintln(conn, conn.RemoteAddr())
				_ = conn.Close()
			}
		}()
		Expect(e.Exec(ctx, container, "nc", "-w", "5", at.Addr().String(), fmt.Sprint(at.Port()))).
			To(HavePrefix(e.Node.Underlay(cidr.V4).Addr().String() + ":"))
	}, limit)

	It("lose no packet while flanneld restarts", func(ctx context.Context) {
		there, back := pings(ctx, s.Engines[0], s.Engines[1]), pings(ctx, s.Engines[1], s.Engines[0])
		for _, end := range []func(*harness.Node) error{
			func(n *harness.Node) error { return n.Stop(ctx) },
			func(n *harness.Node) error { return n.Kill() },
		} {
			for _, e := range s.Engines[:2] {
				Expect(end(e.Node)).To(Succeed())
				there.more(ctx)
				Expect(e.Node.Start()).To(Succeed())
				Expect(e.Node.WaitReady(ctx)).To(Succeed())
				back.more(ctx)
			}
		}
		there.end(ctx)
		back.end(ctx)
		s.reach(ctx)
	}, limit)

	It("have their containers back after a restart of dockerd", func(ctx context.Context) {
		e := s.Engines[0]
		Expect(e.Stop(ctx)).To(Succeed())
		Expect(e.Start(ctx)).To(Succeed())
		s.reach(ctx)
		Expect(e.Kill(ctx)).To(Succeed())
		Expect(e.Start(ctx)).To(Succeed())
		s.reach(ctx)
	}, limit)

	It("lose no packet of a container that goes on without its dockerd", func(ctx context.Context) {
		e := s.Engines[1]
		stream := pings(ctx, s.Engines[0], e)
		for _, end := range []func(context.Context) error{e.Stop, e.Kill} {
			Expect(end(ctx)).To(Succeed())
			stream.more(ctx)
			Expect(e.Start(ctx)).To(Succeed())
			stream.more(ctx)
		}
		stream.end(ctx)
		s.reach(ctx)
	}, limit)

	It("follow their node to another subnet", func(ctx context.Context) {
		e := s.Engines[0]
		s.move(ctx, e)
		Expect(e.Stop(ctx)).To(Succeed())
		Expect(e.Start(ctx)).To(Succeed())
		s.reach(ctx)
	}, limit)

	It("follow their node to another subnet when no container goes on", func(ctx context.Context) {
		e := s.Engines[1]
		former, _ := subnet(e)
		s.move(ctx, e)
		Expect(e.Stop(ctx)).To(Succeed())
		Expect(e.Start(ctx)).To(Succeed())
		Expect(e.Node.Shell(ctx, "ip -4 address show dev docker0")).To(ContainSubstring("inet " + former.String() + " "))
		_, err := e.Docker(ctx, "rm", "--force", container)
		Expect(err).NotTo(HaveOccurred())
		Expect(e.Stop(ctx)).To(Succeed())
		Expect(e.Start(ctx)).To(Succeed())
		Expect(runContainer(ctx, e)).To(Succeed())
		s.reach(ctx)
	}, limit)
})
