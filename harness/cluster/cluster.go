package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flanneld/flannel/harness/internal/machine"
)

// ProgramsEnv is the variable that names the folder of make cluster-programs.
const ProgramsEnv = "FLANNEL_LAB_CLUSTER"

const (
	bridgeName = "underlay"
	scratchDir = "/dev/shm/cluster" // on a file system of the test's own
	dnsAddr    = "10.96.0.10"
)

// The networks of the cluster: the second is for two stacks.
var (
	podCIDRs     = [2]string{"10.244.0.0/16", "fd00:10:244::/56"}
	serviceCIDRs = [2]string{"10.96.0.0/16", "fd00:10:96::/112"}
)

// underlayHost returns the address of a host on the underlay: nodes count from 1, the
// test is host 254.
func underlayHost(number int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 77, byte(number)}), 24)
}

// underlayHost6 is underlayHost for IPv6.
func underlayHost6(number int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 3: 77, 15: byte(number)}), 64)
}

const testHost = 254

// Options say what a cluster consists of.
type Options struct {
	Nodes     int
	Emulated  int       // how many of the nodes, the last ones, are virtual machines with a stock Debian kernel
	Guest     string    // the program of make bin/vm, for such nodes
	Programs  string    // the folder of make cluster-programs
	Flannel   string    // the folder with flanneld and flannel-cni
	Plugins   string    // the folder with the CNI plugins that flannel's calls
	Manifest  string    // deploy/kube-flannel.yml
	Tools     string    // deploy/firewall-tools
	ProxyMode string    // of kube-proxy: nftables, or iptables
	DualStack bool      // IPv6 beside IPv4; the manifest must say so too
	Progress  io.Writer // gets a line for each step; may be nil
}

// Cluster is a running cluster.
type Cluster struct {
	Client kubernetes.Interface // of an administrator
	Config *rest.Config         // the same
	Nodes  []*Node

	options Options
	group   *machine.Group
	bridge  *netlink.Bridge
	began   time.Time
	tokens  map[string]string
}

// Missing reports what a cluster needs and this system lacks.
func Missing() error { return machine.Missing(scratchDir) }

// Start starts a cluster and waits until all nodes and their daemons of flannel are ready.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if err := Missing(); err != nil {
		return nil, fmt.Errorf("a cluster %w", err)
	}
	if o.Emulated >= o.Nodes {
		return nil, errors.New("a cluster needs a node that is not emulated, for its control plane")
	}
	plugins, err := filepath.Abs(o.Plugins) // nodes see it at another place
	if err != nil {
		return nil, err
	}
	o.Plugins = plugins
	c := &Cluster{options: o, began: time.Now()}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"cgroups and underlay", c.prepare},
		{"certificates and configurations", c.writeFiles},
		{"images", c.writeImages},
		{"nodes", c.each(c.startNode)},
		{"control plane", c.startControlPlane},
		{"kubelets and kube-proxies", c.each(c.joinNode)},
		{"flannel and CoreDNS applied", c.applyManifests},
		{"nodes ready", c.awaitNodes},
		{"flannel ready", c.AwaitFlannel},
		{"DNS ready", c.awaitDNS},
	} {
		if err := step.do(ctx); err != nil {
			err = fmt.Errorf("start a cluster: %s: %w", step.what, err)
			return nil, errors.Join(err, c.Close())
		}
		c.say("%s", step.what)
	}
	return c, nil
}

// say reports progress.
func (c *Cluster) say(format string, args ...any) {
	if c.options.Progress != nil {
		_, _ = fmt.Fprintf(c.options.Progress, "%5.1f s  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
	}
}

// path returns the place of one of the cluster's files.
func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{scratchDir}, parts...)...)
}

// each returns a step that does something on all nodes at once.
func (c *Cluster) each(do func(context.Context, *Node) error) func(context.Context) error {
	return func(ctx context.Context) error {
		errs := make([]error, len(c.Nodes))
		var all sync.WaitGroup
		for i, n := range c.Nodes {
			all.Go(func() { errs[i] = do(ctx, n) })
		}
		all.Wait()
		return errors.Join(errs...)
	}
}

// prepare makes the cgroups and the underlay.
func (c *Cluster) prepare(context.Context) (err error) {
	for _, dir := range []string{"files", "disks", "roots", "logs"} {
		if err := os.MkdirAll(c.path(dir), 0o755); err != nil {
			return err
		}
	}
	for i := range c.options.Nodes {
		n := c.newNode(i + 1)
		n.Emulated = i >= c.options.Nodes-c.options.Emulated
		c.Nodes = append(c.Nodes, n)
	}
	c.group, err = machine.NewGroup("flannel-cluster")
	if err != nil {
		return err
	}
	return c.makeUnderlay()
}

// nodeName returns the name of a node. They count from 1.
func nodeName(number int) string { return fmt.Sprintf("n%d", number) }

// newNode returns a node that is off.
func (c *Cluster) newNode(number int) *Node {
	n := &Node{Name: nodeName(number), Addr: underlayHost(number).Addr(), cluster: c, number: number}
	if c.options.DualStack {
		n.Addr6 = underlayHost6(number).Addr()
	}
	return n
}

// makeUnderlay makes the nodes' Ethernet. The test is a host on it, too.
func (c *Cluster) makeUnderlay() error {
	c.bridge = &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}
	if err := netlink.LinkAdd(c.bridge); err != nil {
		return fmt.Errorf("make the underlay: %w", err)
	}
	hosts := []netip.Prefix{underlayHost(testHost)}
	if c.options.DualStack {
		hosts = append(hosts, underlayHost6(testHost))
	}
	for _, host := range hosts {
		addr, err := netlink.ParseAddr(host.String())
		if err == nil {
			err = netlink.AddrAdd(c.bridge, addr)
		}
		if err != nil {
			return fmt.Errorf("make the underlay: %w", err)
		}
	}
	if err := netlink.LinkSetUp(c.bridge); err != nil {
		return fmt.Errorf("make the underlay: %w", err)
	}
	return nil
}

// families returns the value for IPv4 or, with two stacks, the values for both.
func (c *Cluster) families(values [2]string) string {
	if c.options.DualStack {
		return values[0] + "," + values[1]
	}
	return values[0]
}

// unplug removes a node's device. The kernel would do so some time after the end of
// the node's namespace, and until then the name is taken.
func (c *Cluster) unplug(n *Node) error {
	link, err := netlink.LinkByName(n.Name)
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if errors.As(err, &netlink.LinkNotFoundError{}) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("unplug %s: %w", n.Name, err)
	}
	return nil
}

// plug connects a booted node to the underlay.
func (c *Cluster) plug(n *Node) error {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: n.Name, MasterIndex: c.bridge.Attrs().Index},
		PeerName: "eth0", PeerNamespace: netlink.NsPid(n.PID())}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("plug %s: %w", n.Name, err)
	}
	if err := netlink.LinkSetUp(veth); err != nil {
		return fmt.Errorf("plug %s: %w", n.Name, err)
	}
	return nil
}

// startNode boots a node and starts containerd on it with all images.
func (c *Cluster) startNode(ctx context.Context, n *Node) error {
	if err := n.boot(ctx); err != nil {
		return err
	}
	return n.startContainerd(ctx, true)
}

// joinNode makes a booted node join the cluster.
func (c *Cluster) joinNode(ctx context.Context, n *Node) error {
	if err := n.startKubelet(ctx); err != nil {
		return err
	}
	return n.startProxy(ctx)
}

// PowerOn boots a node that is off, with its old disk, which an emulated one does not have. The first node
// cannot be off: the control plane is on it.
func (n *Node) PowerOn(ctx context.Context) error {
	if err := n.boot(ctx); err != nil {
		return err
	}
	if err := n.startContainerd(ctx, false); err != nil {
		return err
	}
	return n.cluster.joinNode(ctx, n)
}

// Install boots a node that is off, with an empty disk, as another machine of that name.
func (n *Node) Install(ctx context.Context) error {
	if err := os.RemoveAll(n.disk()); err != nil {
		return err
	}
	if err := n.cluster.startNode(ctx, n); err != nil {
		return err
	}
	return n.cluster.joinNode(ctx, n)
}

// AddNode boots one more machine, which joins the cluster under a name of its own. It returns when the node's
// kube-proxy knows its services. There can be [spares] such nodes.
func (c *Cluster) AddNode(ctx context.Context) (*Node, error) {
	n := c.newNode(len(c.Nodes) + 1)
	if c.tokens[n.Name] == "" {
		return nil, fmt.Errorf("add %s: the API server has no token for it", n.Name)
	}
	c.Nodes = append(c.Nodes, n)
	if err := n.Install(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("add %s: %w", n.Name, err), c.ForgetNode())
	}
	return n, nil
}

// ForgetNode turns the last node off and forgets it and its disk. Its object stays.
func (c *Cluster) ForgetNode() error {
	last := len(c.Nodes) - 1
	n := c.Nodes[last]
	if err := n.PowerOff(); err != nil {
		return err
	}
	c.Nodes = c.Nodes[:last]
	return os.RemoveAll(n.disk())
}

// RestartKubelet kills kubelet and starts it again.
func (n *Node) RestartKubelet(ctx context.Context) error {
	if err := n.Kill(ctx, "kubelet"); err != nil {
		return err
	}
	// A kubelet exits if it finds its port in use.
	if err := n.cluster.awaitEnd(ctx, "kubelet", netip.AddrPortFrom(n.Addr, kubeletPort)); err != nil {
		return err
	}
	return n.startKubelet(ctx)
}

// Close ends the cluster and returns when its cgroups are gone.
func (c *Cluster) Close() error {
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, n.PowerOff())
	}
	if c.bridge != nil {
		errs = append(errs, netlink.LinkDel(c.bridge))
	}
	if c.group != nil {
		errs = append(errs, c.group.Close())
	}
	errs = append(errs, os.RemoveAll(scratchDir))
	return errors.Join(errs...)
}
