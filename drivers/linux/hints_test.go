package linux

import (
	"bytes"
	"fmt"
	"iter"
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/drivertest"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// do performs actions, each given as text.
func (w *world) do(t testing.TB, actions ...string) {
	t.Helper()
	for _, line := range actions {
		d, err := drivertest.ParseAction(line)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Do(t.Context(), d); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

// ops parses ops given as text.
func ops(t testing.TB, lines ...string) []dataplane.Op {
	t.Helper()
	var all []dataplane.Op
	for _, line := range lines {
		op, err := dataplane.ParseOp(line)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, op)
	}
	return all
}

// withOverlay sets up an uplink and a vxlan device.
func (w *world) withOverlay(t testing.TB) {
	t.Helper()
	w.do(t, "add link eth0 type ethernet mtu 1500 mac 02:00:00:00:00:01 up", "add addr 192.168.64.3/24 dev eth0")
	apply(t, w.d, ops(t, "add link flannel.1 type vxlan mtu 1450 up id 1 dev eth0 local 192.168.64.3 port 8472"))
	w.look(t, benchExtent)
}

func TestHintFilter(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	var h *hints // hears the same announcements as the driver's listener, one message at a time
	if err := w.d.ns.Do(func() (err error) {
		h, err = newHints(w.d.bulk.Port(), w.d.query.Port())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer h.file.Close()
	if err := h.watch(w.d.hints.watched); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		name    string
		actions []string // changes by others
		ops     []string // changes by the driver
		want    bool
	}{
		{name: "ARP churn on the uplink", actions: []string{"learn neigh 192.168.64.7 lladdr 02:00:00:00:00:07 dev eth0",
			"flush-neighs eth0"}},
		{name: "permanent neighbour on the uplink",
			actions: []string{"add neigh 192.168.64.7 lladdr 02:00:00:00:00:07 dev eth0"}},
		{name: "neighbour learnt on the vxlan",
			actions: []string{"learn neigh 10.5.7.0 lladdr 02:00:00:00:00:07 dev flannel.1"}},
		{name: "permanent neighbour on the vxlan",
			actions: []string{"add neigh 10.5.8.0 lladdr 02:00:00:00:00:08 dev flannel.1"}, want: true},
		{name: "a setting of a device that is not announced",
			ops: []string{"replace sysctl net/ipv6/conf/flannel.1/accept_ra = 0 dev flannel.1"}},
		{name: "IP forwarding",
			ops: []string{"replace sysctl net/ipv4/ip_forward = 1", "replace sysctl net/ipv4/ip_forward = 0"}, want: true},
		{name: "neighbours flushed", actions: []string{"flush-neighs flannel.1"}, want: true},
		{name: "FDB entry added", actions: []string{"add fdb 02:00:00:00:00:08 dst 192.168.64.8 dev flannel.1"}, want: true},
		{name: "FDB flushed", actions: []string{"flush-fdb flannel.1"}, want: true},
		{name: "route added", actions: []string{"add route 10.5.9.0/24 via 192.168.64.9 dev eth0 proto 3"}, want: true},
		{name: "route of a routing daemon", actions: []string{"add route 172.30.0.0/24 via 192.168.64.9 dev eth0 proto 186"}},
		{name: "route of a routing daemon into the overlay",
			actions: []string{"add route 10.5.10.0/24 via 192.168.64.9 dev eth0 proto 186"}, want: true},
		{name: "default route of a routing daemon",
			actions: []string{"add route 0.0.0.0/0 via 192.168.64.9 dev eth0 metric 7 proto 186"}, want: true},
		{name: "link down", actions: []string{"down flannel.1"}, want: true},
		{name: "link up", actions: []string{"up flannel.1"}, want: true},
		{name: "address added", actions: []string{"add addr 192.168.65.3/24 dev eth0"}, want: true},
		{name: "another device", actions: []string{
			"add link other type ethernet mtu 1500 mac 02:00:00:00:00:09 up"}, want: true},
		{name: "its address", actions: []string{"add addr 10.99.0.1/24 dev other"}, want: true},
		{name: "its IPv6 address", actions: []string{"add addr fd00:99::1/64 dev other"}, want: true},
		{name: "a default route by it",
			actions: []string{"add route ::/0 via fd00:99::2 dev other proto 3"}, want: true},
		{name: "its forwarding", ops: []string{"replace sysctl net/ipv4/conf/other/forwarding = 1 dev other"}, want: true},
		{name: "its neighbours", actions: []string{"add neigh 10.99.0.2 lladdr 02:00:00:00:00:07 dev other"}},
		{name: "own neighbour and route", ops: []string{
			"add neigh 10.5.3.0 lladdr 02:00:00:00:00:03 dev flannel.1",
			"add route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink",
			"del route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.do(t, c.actions...)
			apply(t, w.d, ops(t, c.ops...))
			got := h.mattersUntilFence(t, w, fmt.Sprintf("fence-%d", i))
			if got != c.want {
				t.Errorf("a reason to look: %v, want %v", got, c.want)
			}
		})
	}
}

// mattersUntilFence reads all announcements up to a fence of its own, and
// reports whether any of them mattered.
func (h *hints) mattersUntilFence(t *testing.T, w *world, fence string) (matters bool) {
	t.Helper()
	for m := range h.untilFence(t, w, fence) {
		hint, _ := h.watched.judge(m)
		matters = matters || hint
	}
	return matters
}

// untilFence reads all announcements up to a fence of its own.
func (h *hints) untilFence(t *testing.T, w *world, fence string) iter.Seq[nl.Message] {
	t.Helper()
	if err := w.far.LinkSetAlias(must(w.far.LinkByName("lo")), fence); err != nil {
		t.Fatal(err)
	}
	if err := w.host.LinkSetAlias(must(w.host.LinkByName("lo")), fence); err != nil {
		t.Fatal(err)
	}
	return func(yield func(nl.Message) bool) {
		buf := make([]byte, nl.ReadSize)
		for {
			n, err := h.file.Read(buf)
			if err != nil {
				t.Error(err)
				return
			}
			for m := range nl.Messages(buf[:n]) {
				if bytes.Contains(m.Body, []byte(fence)) || !yield(m) {
					return
				}
			}
		}
	}
}

// The kernel tells a listener nothing of pods that come and go. A listener without a look before hears it all.
func TestPodsWakeNoListener(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	var filtered, all *hints
	if err := w.d.ns.Do(func() error {
		filtered, all = must(newHints()), must(newHints())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	defer filtered.file.Close()
	defer all.file.Close()
	w.ip(t, "link add cni0 address 02:00:00:00:05:01 type bridge") // as the plugin bridge sets it
	w.ip(t, "link set cni0 up")
	w.ip(t, "link add vethfirst type veth peer name vethpod0") // the bridge keeps its carrier
	w.ip(t, "link set vethfirst master cni0 up")
	uplink := must(w.host.LinkByName("vethfirst")).Attrs().Index
	w.ip(t, "link set vethpod0 up")
	w.look(t, benchExtent)
	if err := filtered.watch(w.d.hints.watched); err != nil {
		t.Fatal(err)
	}
	count := func(h *hints, fence, device string) (heard int) {
		for m := range h.untilFence(t, w, fence) {
			if bytes.Contains(m.Body, []byte(device)) {
				heard++
			}
		}
		return heard
	}
	count(filtered, "before-1", "")
	count(all, "before-2", "")
	const pods = 10
	for i := range pods {
		name := fmt.Sprintf("veth%08x", i)
		w.ip(t, "link add "+name+" type veth peer name vethpod")
		w.ip(t, "link set "+name+" master cni0 up")
		w.ip(t, "link set vethpod name vethother")
		w.ip(t, "link set vethother up")
		w.ip(t, "neigh add 10.5.3.7 lladdr 02:00:00:00:00:07 dev "+name)
		w.ip(t, "link del "+name)
	}
	// Some messages are of the bridge and of the time of a slow machine.
	if few, many := count(filtered, "fence-1", ""), count(all, "fence-2", ""); few > pods || many < 30*pods {
		t.Errorf("for %d pods that came and went the kernel told %d messages, and %d without the filter", pods, few, many)
	}
	if err := filtered.watch(watched{links: map[int]string{uplink: "vethfirst"}, memory: &routeMemory{}}); err != nil {
		t.Fatal(err)
	}
	w.ip(t, "link set vethfirst alias uplink")
	if count(filtered, "fence-3", "vethfirst") == 0 {
		t.Error("the kernel told nothing of a link that matters and is named like one of a pod")
	}
}

func TestHintsArrive(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	for _, action := range []string{"down flannel.1", "up flannel.1", "mtu eth0 1400",
		"del link flannel.1 type vxlan mtu 0 id 0 port 0"} {
		drain(w.d.hints.out)
		w.do(t, action)
		expectHint(t, w.d.hints)
	}
}

func TestHintAfterOverflow(t *testing.T) {
	w := newWorld(t)
	var h *hints
	if err := w.d.ns.Do(func() (err error) {
		h, err = newHints(w.d.bulk.Port(), w.d.query.Port())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	raw := must(h.file.SyscallConn())
	if err := raw.Control(func(fd uintptr) {
		if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1); err != nil {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1)
		}
	}); err != nil {
		t.Fatal(err)
	}
	// Routes of other tables give no hints: only the overflow can.
	lo := must(w.host.LinkByName("lo")).Attrs().Index
	for i := range byte(200) {
		r := &netlink.Route{LinkIndex: lo, Table: 100, Scope: netlink.SCOPE_LINK,
			Dst: &net.IPNet{IP: net.IP{10, 1, i, 0}, Mask: net.CIDRMask(24, 32)}}
		if err := w.host.RouteAdd(r); err != nil {
			t.Fatal(err)
		}
	}
	go h.listen()
	expectHint(t, h)
	if err := h.stop(); err != nil {
		t.Error(err)
	}
}

func TestCloseEndsHints(t *testing.T) {
	w := newWorld(t)
	d, err := Open(t.Context(), w.NS, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-d.hints.done:
	default:
		t.Error("the goroutine outlives the driver")
	}
	if err := w.host.LinkSetAlias(must(w.host.LinkByName("lo")), "still there"); err != nil {
		t.Error(err)
	}
}

func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}

func expectHint(t *testing.T, h *hints) {
	t.Helper()
	select {
	case <-h.out:
	case <-time.After(10 * time.Second):
		t.Fatal("no hint")
	}
}
