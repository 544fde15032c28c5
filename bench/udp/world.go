package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/flanneld/flannel/internal/wholedump"
)

// underlayMTU is the MTU of Ethernet.
const underlayMTU = 1500

// world is one way to carry packets: two nodes, and a pod on each.
type world struct {
	way   string
	nodes [2]*node
	said  string // by the last node, about its way to carry
}

// node is a namespace, with a process that carries packets, and one behind it.
type node struct {
	ns, pod netns.NsHandle
	carrier *exec.Cmd
	pid     int // of the process that carries packets: carrier, or its child
	stdin   io.Closer
}

func underlay(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 168, 64, byte(i + 1)}) }
func subnet(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, byte(i + 1), 0}), 24)
}
func gateway(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 5, byte(i + 1), 1}) }
func pod(i int) netip.Addr     { return netip.AddrFrom4([4]byte{10, 5, byte(i + 1), 7}) }

func build(way, profile string) (*world, error) {
	w := &world{way: way}
	for i := range w.nodes {
		n := &node{ns: netns.None(), pod: netns.None()}
		w.nodes[i] = n
		if err := n.addNamespaces(); err != nil {
			return w, err
		}
	}
	mtu, err := w.connect()
	if err != nil {
		return w, err
	}
	for i, n := range w.nodes {
		if err := n.addPod(i, mtu); err != nil {
			return w, fmt.Errorf("pod of node %d: %w", i, err)
		}
		said, err := n.carry(way, i, profile)
		if err != nil {
			return w, err
		}
		w.said = said
	}
	return w, nil
}

// addNamespaces makes the namespaces of the node and of its pod.
func (n *node) addNamespaces() error {
	var err error
	n.ns, err = newNamespace()
	if err != nil {
		return err
	}
	n.pod, err = newNamespace()
	return err
}

// connect makes the wire and returns the MTU of packets in the tunnel.
func (w *world) connect() (int, error) {
	h, err := wholedump.At(w.nodes[0].ns)
	if err != nil {
		return 0, err
	}
	defer h.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "eth0", underlayMTU
	wire := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(w.nodes[1].ns)}
	if err := h.LinkAdd(wire); err != nil {
		return 0, fmt.Errorf("add wire: %w", err)
	}
	for i, n := range w.nodes {
		if err := configure(n.ns, "eth0", netip.PrefixFrom(underlay(i), 24), netip.Addr{}); err != nil {
			return 0, err
		}
	}
	return underlayMTU - overheads[w.way], nil
}

// overheads are the bytes that each way takes from the wire's MTU.
var overheads = map[string]int{
	"raw": 0, "vxlan": 50, "plain": 28, "gso": 28, "upstream": 28, "wireguard": 80, "kernel-wireguard": 80,
}

// addPod makes a bridge and a pod behind it.
func (n *node) addPod(i, mtu int) error {
	h, err := wholedump.At(n.ns)
	if err != nil {
		return err
	}
	defer h.Close()
	bridge := netlink.NewLinkAttrs()
	bridge.Name, bridge.MTU = "cni0", mtu
	if err := h.LinkAdd(&netlink.Bridge{LinkAttrs: bridge}); err != nil {
		return err
	}
	port := netlink.NewLinkAttrs()
	port.Name, port.MTU = "pod", mtu
	veth := &netlink.Veth{LinkAttrs: port, PeerName: "eth0", PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(n.pod)}
	if err := h.LinkAdd(veth); err != nil {
		return err
	}
	master, err := h.LinkByName("cni0")
	if err != nil {
		return err
	}
	l, err := h.LinkByName("pod")
	if err != nil {
		return err
	}
	return errors.Join(
		h.LinkSetMaster(l, master), h.LinkSetUp(l),
		configure(n.ns, "cni0", netip.PrefixFrom(gateway(i), 24), netip.Addr{}),
		configure(n.pod, "eth0", netip.PrefixFrom(pod(i), 24), gateway(i)))
}

// configure gives a link an address, sets it up, and adds a default route.
func configure(ns netns.NsHandle, link string, addr netip.Prefix, via netip.Addr) error {
	h, err := wholedump.At(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := h.LinkByName(link)
	if err != nil {
		return err
	}
	ipnet := &net.IPNet{IP: addr.Addr().AsSlice(), Mask: net.CIDRMask(addr.Bits(), 32)}
	if err := errors.Join(h.AddrAdd(l, &netlink.Addr{IPNet: ipnet}), h.LinkSetUp(l)); err != nil {
		return err
	}
	if !via.IsValid() {
		return nil
	}
	return h.RouteAdd(&netlink.Route{Gw: via.AsSlice()})
}

// carry starts the process that carries packets, and returns its first line,
// which it prints when it is ready.
func (n *node) carry(way string, i int, profile string) (string, error) {
	cmd := exec.Command("/proc/self/exe", "carry", way, strconv.Itoa(i), profile)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := startIn(n.ns, cmd); err != nil {
		return "", err
	}
	n.carrier, n.stdin = cmd, stdin
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("node %d does not carry", i)
	}
	pid, said, err := carrierOf(line)
	n.pid = pid
	return said, err
}

func (w *world) close() {
	for _, n := range w.nodes {
		if n == nil {
			continue
		}
		if n.carrier != nil {
			n.stdin.Close()
			_ = n.carrier.Wait()
		}
		for _, ns := range []netns.NsHandle{n.pod, n.ns} {
			if ns.IsOpen() {
				_ = ns.Close()
			}
		}
	}
}

// cpu returns the CPU time of the processes that carry packets.
func (w *world) cpu() (time.Duration, error) {
	var sum time.Duration
	for _, n := range w.nodes {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.pid))
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
			ticks, err := strconv.Atoi(f)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return sum, nil
}

// newNamespace makes a namespace that forwards packets, as a node does.
func newNamespace() (netns.NsHandle, error) {
	ns := netns.None()
	made := make(chan error)
	go func() { // the thread ends with the goroutine
		runtime.LockOSThread()
		var err error
		ns, err = netns.New()
		if err == nil {
			err = os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
		}
		made <- err
	}()
	return ns, <-made
}

// inside runs f in a namespace, on a thread that ends with f.
func inside(ns netns.NsHandle, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := netns.Set(ns)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// startIn starts a process in a namespace. It ends with this one, when its
// standard input ends.
func startIn(ns netns.NsHandle, cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return inside(ns, cmd.Start)
}
