package simworld

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/agent/metrics"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/scenarios/check/invariants"
	"github.com/flanneld/flannel/scenarios/lang"
)

// simNode is a simulated host with its daemon.
type simNode struct {
	*kernel.Host
	world   *World
	index   int
	daemon  *daemon.Daemon
	pod     *kernel.Pod
	subnet  string // the subnet file that the pod was made from
	mtu     int
	extra   *kernel.Pod      // the pod that comes and goes
	second  *daemon.Daemon   // the daemon started by mistake
	watched *invariants.Node // the node as the invariants watch it

	*simUplink
	crew *daemon.Crew // of a topology with several networks
}

// simUplink is the state of a host's uplink.
type simUplink struct {
	cut   bool          // from the datastore
	addrs [2]netip.Addr // later addresses, by family
}

func (w *World) newNode(i int, name string) (*simNode, error) {
	n := &simNode{Host: w.network.NewHost(name), world: w, index: i, simUplink: &simUplink{}}
	n.Forward()
	if slices.Contains(w.top.NoIPv6, name) {
		n.WithoutIPv6()
	}
	if slices.Contains(w.top.NoWireGuard, name) {
		n.WithoutKind(dataplane.LinkWireGuard)
	}
	if err := w.plug(n.Host, "eth0", w.top.Segment(i), i+1); err != nil {
		return nil, err
	}
	if w.top.Networks != nil && !w.top.Apart {
		n.crew = w.newCrew(n)
	}
	n.install()
	return n, n.defaultRoutes()
}

// install installs the daemon.
func (n *simNode) install() {
	w := n.world
	options := NodeOptions(w.top)
	n.watched = w.invariants.AddNode(n.Host)
	if slices.Contains(w.top.NAT, n.Name()) {
		n.behindNAT(&options)
	}
	daemons := daemon.Options{
		Node:      options,
		Reachable: n.reachesStore,
		Servers:   w.servers,
		OneByOne:  true,
		Cloud:     w.cloud,
		Wrap:      n.watched.Wrap(n.plant),
	}
	if n.crew != nil {
		n.daemon = n.crew.Add(w.top.Network, w.storage, daemons)
	} else {
		n.daemon = daemon.New(n.Host, w.storage, daemons)
	}
	n.watched.Daemon = n.daemon
}

// HideTUN implements [lang.TUNHider].
func (n *simNode) HideTUN(on bool) error {
	n.Host.HideTUN(on)
	return nil
}

// behindNAT makes the router translate the node's addresses, and the node publish
// the translated ones.
func (n *simNode) behindNAT(o *node.Options) {
	for _, f := range n.world.top.Families {
		public := lang.PublicAddr(f, n.index)
		n.world.router.Translate(public, n.uplinkAddr(f).Addr())
		n.watched.Public = append(n.watched.Public, public)
	}
	o.Uplink.Ifaces = []string{"eth0"} // otherwise --public-ip would have to be an address of the interface to use
	o.Uplink.PublicIP = lang.PublicAddr(cidr.V4, n.index).String()
	o.Uplink.PublicIPv6 = lang.PublicAddr(cidr.V6, n.index).String()
}

// NodeOptions returns the options of every node of a topology. They are the same as
// those from the flags of a lab's daemons.
func NodeOptions(top lang.Topology) node.Options {
	return node.Options{
		LeaseTTL:   top.TTL,
		ExitOnLoss: top.ExitOnLoss,
		Firewall:   firewall.Options{Masquerade: top.Firewalled(), Forward: top.Firewalled()},
		Blackhole:  top.Blackhole,
		IPForward:  top.IPForward,

		TrustConfig: top.Kube || !top.NoExtension, // in Kubernetes the config is a file of the host

		NextHopsFrom: top.NextHops,

		ProbeInterval:     top.Probes,
		ProbeUnreadyAfter: 30 * time.Second,
	}
}

// plant wraps a process in the world's defects.
func (n *simNode) plant(p daemon.Parts) daemon.Parts {
	for _, defect := range n.world.defects {
		if defect.Daemon != nil {
			p = defect.Daemon(n.label(), p)
		}
	}
	text, _ := n.daemon.File(node.StateFile)
	_, err := node.SavedMarks(text)
	return n.world.apart.Wrap(n.Host, n.world.top.Network, err == nil, func() bool { return n.daemon.Running() }, p)
}

// label names the node for a defect: its host and, of several, its network.
func (n *simNode) label() string {
	if n.world.top.Network == "" {
		return n.Name()
	}
	return n.Name() + "/" + n.world.top.Network
}

// GoByOneName implements [lang.Twin].
func (n *simNode) GoByOneName() { n.watched.Twinned = true }

// ShowsProcess implements [lang.ProcessState].
func (n *simNode) ShowsProcess() {}

func (n *simNode) defaultRoutes() error {
	for _, f := range cidr.Families {
		if f == cidr.V4 || n.world.top.HasIPv6() {
			err := n.DefaultRoute(lang.UnderlayAddr(f, n.world.top.Segment(n.index), lang.RouterHost).Addr())
			if err != nil && !errors.Is(err, driver.ErrExists) {
				return err
			}
		}
	}
	return nil
}

// reachesStore reports whether the node reaches the datastore over its uplink.
func (n *simNode) reachesStore() bool {
	wire := n.Wire("eth0")
	return !n.cut && wire != nil && !wire.Down && n.HasCarrier("eth0") && n.uplinkUp()
}

func (n *simNode) uplinkUp() bool {
	for _, l := range n.Facts().Links {
		if l.Name == "eth0" {
			return l.Up
		}
	}
	return false
}

func (n *simNode) Start([]string) error { n.daemon.Start(); return nil }

func (n *simNode) Stop() error {
	n.daemon.Stop()
	if !n.World().RunUntil(n.daemon.Ended, 10*time.Second) {
		return errors.New("the daemon does not end")
	}
	return nil
}

func (n *simNode) Kill() error { n.daemon.Kill(); return nil }

// Running reports whether the daemon runs. A halted daemon that was asked to end
// does so as soon as it continues.
func (n *simNode) Running() bool { return n.daemon.Active() }

// forever is longer than any scenario.
const forever = 1000 * time.Hour

func (n *simNode) Pause() error  { n.daemon.Pause(forever); return nil }
func (n *simNode) Resume() error { n.daemon.Resume(); return nil }

func (n *simNode) Exited() (int, bool) {
	if e := n.daemon.Exit(); e != nil {
		return e.Status, true
	}
	return 0, false
}

func (n *simNode) Log() string { return strings.Join(n.daemon.Log(), "\n") }

func (n *simNode) SubnetFile() string {
	data, _ := n.daemon.File(node.SubnetFile)
	return string(data)
}

// Status asks the daemon. A daemon that was asked to end does not answer, as a real
// one closes its listener first.
func (n *simNode) Status() (node.Status, error) {
	if !n.Running() || n.daemon.Node() == nil {
		return node.Status{}, lang.ErrNoDaemon
	}
	return n.daemon.Status(), nil
}

// Peers implements [lang.PeerObserver].
func (n *simNode) Peers() ([]node.Peer, error) {
	if !n.Running() || n.daemon.Node() == nil {
		return nil, lang.ErrNoDaemon
	}
	return n.daemon.Node().Peers(), nil
}

// LastLook implements [lang.LookObserver].
func (n *simNode) LastLook() (*dataplane.State, error) {
	if !n.Running() || n.daemon.Node() == nil {
		return nil, lang.ErrNoDaemon
	}
	for _, t := range n.daemon.Node().Tables() {
		if t.Lane == node.HostLane.String() && !t.LastLook.IsZero() {
			return t.Have, nil
		}
	}
	return nil, nil
}

// Differences implements [lang.DifferenceObserver].
func (n *simNode) Differences() ([]node.Difference, error) {
	if !n.Running() || n.daemon.Node() == nil {
		return nil, lang.ErrNoDaemon
	}
	return n.daemon.Node().Differences(), nil
}

// Metrics implements [lang.Metered], as the daemon answers a scrape.
func (n *simNode) Metrics() (string, error) {
	if !n.Running() {
		return "", lang.ErrNoDaemon
	}
	w := httptest.NewRecorder()
	page := metrics.Handler(false, metrics.Source{Node: scraped{n.daemon}})
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		return "", fmt.Errorf("metrics: %d %s", w.Code, w.Body)
	}
	return w.Body.String(), nil
}

// scraped is a daemon as a scrape reads it.
type scraped struct{ daemon *daemon.Daemon }

// Status implements [metrics.Source].
func (s scraped) Status() node.Status { return s.daemon.Status() }

// Peers implements [metrics.Source].
func (s scraped) Peers() ([]node.Peer, bool) { return s.daemon.Node().Peers(), true }

func (n *simNode) SyncPods() error {
	text := n.SubnetFile()
	if text == n.subnet && n.pod != nil {
		return nil
	}
	_, after, _ := strings.Cut(text, "FLANNEL_MTU=")
	if _, err := fmt.Sscanf(after, "%d", &n.mtu); err != nil {
		return fmt.Errorf("subnet file %q: MTU: %w", text, err)
	}
	if n.pod != nil && lang.WithoutMTU(text) == lang.WithoutMTU(n.subnet) {
		n.subnet = text
		return n.SetPodMTU(n.mtu)
	}
	if n.pod != nil {
		if err := n.removePod(); err != nil {
			return err
		}
	}
	var err error
	n.subnet = text
	n.pod, err = n.NewPod(n.podName("pod"), n.mtu, n.podSubnets()...)
	return err
}

// podName returns the name of a pod of the node: each network has its own.
func (n *simNode) podName(what string) string {
	if len(n.world.top.Networks) > 0 {
		what += "-" + n.world.top.Network
	}
	return n.Name() + "." + what
}

// podSubnets returns the subnets of the file that the pod was made from.
func (n *simNode) podSubnets() []netip.Prefix {
	key := subnetfile.Previous([]byte(n.subnet))
	var subnets []netip.Prefix
	for _, f := range cidr.Families {
		if p := key.Of(f); p.IsValid() {
			subnets = append(subnets, p)
		}
	}
	return subnets
}

// ChurnPods implements [lang.PodChurner]. While the node has no pod, no further one comes.
func (n *simNode) ChurnPods(every, length time.Duration) {
	if length <= 0 || every <= 0 {
		return
	}
	switch {
	case n.extra != nil:
		n.removeExtra()
	case n.pod != nil:
		extra, err := n.NewPod(n.podName("extra"), n.mtu, n.podSubnets()...)
		if err == nil {
			n.extra = extra
		}
	}
	n.World().After(every, n.Name()+": pods", func() { n.ChurnPods(every, length-every) })
}

func (n *simNode) removeExtra() {
	if n.extra != nil {
		n.extra.Remove()
		n.extra = nil
	}
}

// removePod removes the pod, and its gateway's addresses from the bridge.
func (n *simNode) removePod() error {
	n.removeExtra()
	n.pod.Remove()
	for _, p := range n.podSubnets() {
		if err := n.AddrDel("cni0", netip.PrefixFrom(p.Addr().Next(), p.Bits())); err != nil {
			return err
		}
	}
	return nil
}

// AddNIC implements [lang.NICAdder].
func (n *simNode) AddNIC(dev string) error {
	return n.AddEthernet(dataplane.Link{Name: dev, MTU: n.world.top.MTU, Up: true})
}

func (n *simNode) UplinkDown() error { return n.LinkDown("eth0") }

func (n *simNode) UplinkUp() error {
	if err := n.LinkUp("eth0"); err != nil {
		return err
	}
	if n.world.top.HasIPv6() {
		err := n.AddrAdd("eth0", n.uplinkAddr(cidr.V6))
		if err != nil && !errors.Is(err, driver.ErrExists) {
			return err
		}
	}
	err := n.defaultRoutes()
	if errors.Is(err, driver.ErrUnreachable) {
		return nil // another fault has taken the address; its heal adds the routes, too
	}
	return err
}

func (n *simNode) UplinkAddress(ip netip.Addr) error {
	f := cidr.FamilyOf(ip)
	old := n.uplinkAddr(f)
	if err := n.AddrDel("eth0", old); err != nil && !errors.Is(err, driver.ErrNotFound) {
		return err // an IPv6 address disappears by itself when the link goes down
	}
	n.addrs[f] = ip
	defer n.world.cloud.Refresh()
	if slices.Contains(n.world.top.NAT, n.Name()) {
		n.world.router.Translate(lang.PublicAddr(f, n.index), ip)
	}
	if err := n.AddrAdd("eth0", netip.PrefixFrom(ip, old.Bits())); err != nil || !n.uplinkUp() {
		return err // no route leads over a link that is down
	}
	return n.defaultRoutes()
}

// uplinkAddr returns the uplink's present or last address of a family.
func (n *simNode) uplinkAddr(f cidr.Family) netip.Prefix {
	own := lang.UnderlayAddr(f, n.world.top.Segment(n.index), n.index+1)
	if moved := n.addrs[f]; moved.IsValid() {
		return netip.PrefixFrom(moved, own.Bits())
	}
	return own
}

func (n *simNode) UplinkMTU(mtu int) error { return n.SetMTU("eth0", mtu) }

func (n *simNode) SetPodMTU(mtu int) error {
	return errors.Join(n.SetMTU("cni0", mtu), n.pod.SetMTU(mtu))
}

func (n *simNode) Isolate(on bool) error {
	n.Wire("eth0").Down = on
	return nil
}

func (n *simNode) Cut(on bool) error {
	n.cut = on
	return nil
}
