package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/harness/internal/machine"
	"github.com/flanneld/flannel/harness/vm"
)

// The places where a node finds the cluster's files.
const (
	programsDir = "/opt/cluster/programs" // the folder of make cluster-programs
	filesDir    = "/opt/cluster/files"    // certificates, configurations and archives
	pluginsDir  = "/opt/cluster/plugins"  // Options.Plugins
)

// newRuntimeNode is the number of the node whose containerd knows version 1.1 of CNI. Debian's on the others knows 1.0.
const newRuntimeNode = 2

// kept are the folders of a node that must not be in an overlay.
var kept = []string{"/var/lib/containerd", "/var/lib/kubelet", "/var/lib/flannel", "/var/lib/cni", "/var/log/pods",
	"/var/log/containers", "/opt/cni", "/etc/cni"}

// settings are the kernel settings that kubelet writes and that no namespace separates.
// A file with the wanted value covers each of them.
var settings = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// Node is one of the cluster's nodes.
type Node struct {
	Name  string
	Addr  netip.Addr // on the underlay
	Addr6 netip.Addr // not valid with one stack

	// Emulated says that it is a virtual machine with a kernel of its own. It is several times slower.
	Emulated bool

	cluster *Cluster
	number  int              // 1 and up
	machine *machine.Machine // nil before the first boot
}

// boot starts the node's machine and connects it to the underlay.
func (n *Node) boot(ctx context.Context) error {
	o := machine.Options{
		Name: n.Name, Group: n.cluster.group, Log: n.cluster.path("logs", n.Name),
		Disk: n.disk(), Root: n.cluster.path("roots", n.Name),
		Binds: map[string]string{n.cluster.options.Programs: programsDir, n.cluster.path("files"): filesDir,
			n.cluster.options.Plugins: pluginsDir},
		Kept: kept, Settings: settings, Forward: true,
		Path: []string{programsDir + "/bin", programsDir + "/debian/usr/bin", programsDir + "/debian/usr/sbin"},
	}
	if n.number == newRuntimeNode {
		o.Path = slices.Insert(o.Path, 0, programsDir+"/containerd")
	}
	if n.Emulated {
		o.Binds["/usr/lib/modules"] = "/usr/lib/modules"
		guest, err := n.emulate(ctx)
		if err != nil {
			return err
		}
		o.Guest = guest
	}
	booted, err := machine.Boot(ctx, o)
	if err != nil {
		if o.Guest != nil {
			err = errors.Join(err, o.Guest.Close())
		}
		return err
	}
	n.machine = booted
	if !n.Emulated {
		if err := n.cluster.plug(n); err != nil {
			return err
		}
	}
	return n.setAddresses(ctx)
}

// setAddresses gives a booted node its addresses on the underlay.
func (n *Node) setAddresses(ctx context.Context) error {
	script := []string{"ip link set lo up", "ip link set eth0 up", "ip addr add " + n.Addr.String() + "/24 dev eth0",
		"ip route add default via " + underlayHost(testHost).Addr().String()}
	if n.Addr6.IsValid() {
		script = append(script, "ip addr add "+n.Addr6.String()+"/64 dev eth0 nodad",
			"ip route add default via "+underlayHost6(testHost).Addr().String())
	}
	if n.Emulated {
		script = append(script, "modprobe br_netfilter") // as every guide for nodes says
	}
	_, err := n.Run(ctx, "sh", "-ec", strings.Join(script, "\n"))
	return err
}

// guestMemory is that of an emulated node in MiB, which holds its disk, too.
const guestMemory = 6144

// emulate boots the virtual machine of a node, which is connected to the underlay. The device of the
// underlay ends with it.
func (n *Node) emulate(ctx context.Context) (*vm.Machine, error) {
	kernel, err := vm.Find() // a lab has no network to fetch one
	if err != nil {
		return nil, err
	}
	tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: n.Name, MasterIndex: n.cluster.bridge.Attrs().Index},
		Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR, NonPersist: true, Queues: 1}
	if err := netlink.LinkAdd(tap); err != nil {
		return nil, fmt.Errorf("plug %s: %w", n.Name, err)
	}
	defer tap.Fds[0].Close() // QEMU has its own
	if err := netlink.LinkSetUp(tap); err != nil {
		return nil, fmt.Errorf("plug %s: %w", n.Name, err)
	}
	return vm.Boot(ctx, vm.Options{
		Kernel: kernel, Guest: n.cluster.options.Guest, Memory: guestMemory,
		Writable: []string{n.cluster.path("files")},
		Networks: []vm.Network{{Tap: tap.Fds[0], MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, byte(n.number)}}},
	})
}

// disk returns the folder of the node's files.
func (n *Node) disk() string { return n.cluster.path("disks", n.Name) }

// PID returns the id of the node's first process, whose namespaces are the node's. It is 0 for an emulated node.
func (n *Node) PID() int { return n.machine.PID() }

// Run runs a program on the node to its end and returns its output.
func (n *Node) Run(ctx context.Context, args ...string) (string, error) {
	return n.machine.Run(ctx, args...)
}

// daemon starts a program and does not wait for its end. Its log is named after it.
func (n *Node) daemon(ctx context.Context, name string, args ...string) error {
	return n.machine.Daemon(ctx, name, args...)
}

// Kill kills one of the node's daemons, such as "kubelet".
func (n *Node) Kill(ctx context.Context, daemon string) error { return n.machine.Kill(ctx, daemon) }

// PowerOff ends all processes of the node at once. Its disk stays.
func (n *Node) PowerOff() error {
	if n.machine == nil {
		return nil
	}
	if err := n.machine.PowerOff(); err != nil {
		return err
	}
	if err := n.cluster.unplug(n); err != nil {
		return fmt.Errorf("power off %s: %w", n.Name, err)
	}
	return nil
}

// LogTail returns the end of the log of one of the node's daemons.
func (n *Node) LogTail(daemon string) string { return n.machine.LogTail(daemon) }

// Log returns the whole log of one of the node's daemons, also from former boots. The node must not be emulated.
func (n *Node) Log(daemon string) string { return n.machine.Log(daemon) }
