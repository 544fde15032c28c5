package linux

import (
	"bytes"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
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
			if c.want { // at times after the fence: the kernel announces an IPv6 address once it has looked for duplicates
				h.untilOneMatters(t)
			}
			if h.mattersUntilFence(t, w, fmt.Sprintf("fence-%d", i)) && !c.want {
				t.Error("there is a reason to look, want none")
			}
		})
	}
}

// untilOneMatters reads announcements up to one that matters.
func (h *hints) untilOneMatters(t *testing.T) {
	t.Helper()
	if err := h.file.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for m := range h.heard(t) {
		if hint, _ := h.watched.judge(m); hint {
			break
		}
	}
	if err := h.file.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
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
		for m := range h.heard(t) {
			if bytes.Contains(m.Body, []byte(fence)) || !yield(m) {
				return
			}
		}
	}
}

// heard reads announcements.
func (h *hints) heard(t *testing.T) iter.Seq[nl.Message] {
	return func(yield func(nl.Message) bool) {
		buf := make([]byte, nl.ReadSize)
		for {
			n, err := h.file.Read(buf)
			if err != nil {
				t.Error(err)
				return
			}
			for m := range nl.Messages(buf[:n]) {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// pod adds the end of a pod's veth to a bridge, as a CNI plugin does. The other end is in another namespace.
func (w *world) pod(t *testing.T, name, bridge string) {
	t.Helper()
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "p" + name,
		PeerNamespace: netlink.NsFd(w.farNS)}
	if err := w.host.LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	if err := w.far.LinkSetUp(must(w.far.LinkByName("p" + name))); err != nil {
		t.Fatal(err)
	}
	w.ip(t, "link set "+name+" master "+bridge+" up")
}

// macvlan adds a macvlan whose parent is in another namespace.
func (w *world) macvlan(t *testing.T, name string) {
	t.Helper()
	parent := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "parent"}}
	if err := w.far.LinkAdd(parent); err != nil {
		t.Fatal(err)
	}
	attrs := netlink.LinkAttrs{Name: name, ParentIndex: parent.Index, Namespace: netlink.NsFd(w.NS)}
	if err := w.far.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs}); err != nil {
		t.Fatal(err)
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
	w.pod(t, "vethfirst", "cni0") // the bridge keeps its carrier
	w.look(t, benchExtent)
	if err := filtered.watch(w.d.hints.watched); err != nil {
		t.Fatal(err)
	}
	count := func(h *hints, fence string) (heard int) {
		for range h.untilFence(t, w, fence) {
			heard++
		}
		return heard
	}
	count(filtered, "before-1")
	count(all, "before-2")
	const pods = 10
	for i := range pods {
		name := fmt.Sprintf("veth%08x", i)
		w.pod(t, name, "cni0")
		w.ip(t, "neigh add 10.5.3.7 lladdr 02:00:00:00:00:07 dev "+name)
		w.ip(t, "link del "+name)
	}
	// Some messages are of the bridge and of the time of a slow machine.
	if few, many := count(filtered, "fence-1"), count(all, "fence-2"); few >= pods || many < 20*pods {
		t.Errorf("for %d pods that came and went the kernel told %d messages, and %d without the filter", pods, few, many)
	}
}

// Whatever changes the facts or the state of a host is a reason to look, and no look takes its routes from a stale
// memory.
func TestChangesAreTold(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	extent := benchExtent
	extent.Reach = []netip.Addr{netip.MustParseAddr("172.16.8.1"), netip.MustParseAddr("fec0::5")}
	w.ip(t, "link add br0 address 02:00:00:00:88:01 type bridge")
	w.ip(t, "link set br0 up")
	w.ip(t, "addr add 10.5.77.1/24 dev br0")
	w.pod(t, "vethpod", "br0")
	w.pod(t, "vethup", "br0")
	w.macvlan(t, "vethmac")
	bare := must(Open(t.Context(), w.NS, drivertest.Secrets{})) // remembers nothing
	defer bare.Close()
	for _, action := range strings.Split(strings.TrimSpace(changes), "\n") {
		w.settle(t, extent)
		before := must(w.d.Look(t.Context(), extent))
		must(w.d.hints.news())
		w.ip(t, action)
		told := false
		eventually(t, "ip "+action+": a change is a reason to look, and is seen", func() bool {
			told = must(w.d.hints.news()) || told
			hinted := must(w.d.Look(t.Context(), extent))
			bare.routes, bare.memory = nil, nil
			whole := must(bare.Look(t.Context(), extent))
			return sameHost(hinted, whole) && (told || sameHost(before, whole))
		})
	}
}

func sameHost(a, b driver.Observation) bool {
	return a.State.Equal(b.State) && a.Facts.(driver.HostFacts).Equal(b.Facts.(driver.HostFacts))
}

// changes are some that a filter could hide: of devices named like those of pods, or like what every device has.
const changes = `
link add veth0 type veth peer name vethp0
link set vethp0 up
addr add 172.20.0.1/24 dev veth0
link set veth0 up
link set veth0 mtu 1400
link set veth0 address 02:00:00:00:77:01
route add 172.16.0.0/12 via 172.20.0.2 dev veth0
link set veth0 mtu 1300
link set vethp0 down
link set vethp0 up
link set veth0 down
link set veth0 up
addr del 172.20.0.1/24 dev veth0
addr add 172.20.0.1/24 dev veth0 scope link
addr del 172.20.0.1/24 dev veth0
link set veth0 down
link set veth0 name up0
link set up0 up
addr add fec0::1/64 dev up0 nodad
route add fec0::5/128 via fec0::2 dev up0
route del fec0::5/128
link set up0 down
link set up0 name veth7
link set veth7 up
addr add 172.21.0.1/24 dev veth7
route add default via 172.21.0.77 dev veth7
link set veth7 mtu 1280
link set vethup nomaster
addr add 172.22.0.1/24 dev vethup
link set vethup mtu 1400
link set vethup down
link add br1 address 02:00:00:00:88:02 type bridge
link set br1 up
link add vethj0 type veth peer name vethj1
link set vethj0 up
link set vethj1 up
link set vethj1 master br1
link set vethj0 master br0
link set vethj0 nomaster
link del vethj0
addr add fe80::5/64 dev flannel.1 nodad
neigh add 10.5.3.1 lladdr 02:00:00:00:00:77 dev flannel.1 nud permanent
link set flannel.1 down
link set flannel.1 name vethfl
link set vethfl name flannel.1
link del flannel.1
link set veth7 mtu 1300
addr add fe80::77/64 dev veth7 nodad
addr del fe80::77/64 dev veth7
route add fe80::/9 dev br1
route del fe80::/9 dev br1
link set vethmac up
link set vethmac mtu 1300
addr add 172.23.0.1/24 dev vethmac
link set vethmac mtu 1200
link del vethmac
link set veth7 down
link set veth7 name flannel.1
link del flannel.1
`

// settle looks until there is no reason for another look.
func (w *world) settle(t *testing.T, extent dataplane.Extent) {
	t.Helper()
	for must(w.d.hints.news()) {
		must(w.d.Look(t.Context(), extent))
	}
}

// A link that begins to matter may have changed after the look has read it, without an announcement.
func TestLinkThatBeginsToMatter(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	must(w.d.hints.news())
	for i, c := range []struct {
		wired []int
		want  bool
	}{{[]int{77}, true}, {[]int{77}, false}, {nil, false}, {[]int{77, 78}, true}} {
		if err := w.d.hints.watchWired(c.wired); err != nil {
			t.Fatal(err)
		}
		if got := must(w.d.hints.news()); got != c.want {
			t.Errorf("%d: %v: a reason to look: %t, want %t", i, c.wired, got, c.want)
		}
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

// TestEndlessAnnouncements reads a socket on which there is always another message. Looks and the node's questions wait
// for the lock meanwhile, so it is given back.
func TestEndlessAnnouncements(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	_ = unix.Close(pair[1]) // each receive returns at once, with nothing
	h := &hints{buf: make([]byte, nl.ReadSize)}
	if !h.drain(pair[0]) {
		t.Error("no more announcements, though there is always another one")
	}
	if !h.mutex.TryLock() {
		t.Error("the lock is held")
	}
}
