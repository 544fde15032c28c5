package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// TestManyPeers takes several batches to write and many receives to read.
func TestManyPeers(t *testing.T) {
	const peers = 1500
	w := newWorld(t)
	w.withOverlay(t)
	add := peerOps(dataplane.Create, peers)
	apply(t, w.d, add)
	want := dataplane.NewState()
	for _, op := range add {
		want.Put(op.Object)
	}
	have := w.look(t, benchExtent)
	have.Routes.DeleteFunc(func(key dataplane.RouteKey, _ dataplane.Route) bool {
		return key.Dst.Addr().IsLinkLocalUnicast() // the kernel's own, on every link that is up
	})
	have.Links = want.Links
	if d := cmp.Diff(want.Dump(), have.Dump()); d != "" {
		t.Fatalf("the state read back differs from the one applied (-want +have):\n%s", d)
	}

	// Every error finds its op, wherever the op is in a batch.
	again := peerOps(dataplane.Create, peers)
	for i := range again {
		if i%7 == 0 {
			again[i].Verb = dataplane.Replace
		}
	}
	for i, err := range w.d.Apply(t.Context(), again) {
		if exists := errors.Is(err, driver.ErrExists); exists != (i%7 != 0) {
			t.Fatalf("op %d, %s: error %v", i, again[i], err)
		}
	}
	apply(t, w.d, peerOps(dataplane.Delete, peers))
	for i, err := range w.d.Apply(t.Context(), peerOps(dataplane.Delete, peers)) {
		if !errors.Is(err, driver.ErrNotFound) {
			t.Fatalf("second delete %d: error %v", i, err)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	for _, c := range []struct{ op, want string }{
		{
			"add link other.1 type vxlan mtu 1450 id 1 dev eth0 local 192.168.64.3 port 8472",
			"add link other.1 type vxlan mtu 1450 id 1 dev eth0 local 192.168.64.3 port 8472: already exists: " +
				"link flannel.1 has VNI 1 and port 8472 already; delete it or choose another VNI or port: " +
				"file exists (A VXLAN device with the specified VNI already exists)",
		},
		{
			"add link eth0 type vxlan mtu 1450 id 2 dev eth0 local 192.168.64.3 port 8472",
			"add link eth0 type vxlan mtu 1450 id 2 dev eth0 local 192.168.64.3 port 8472: already exists: " +
				"a link of this name, type veth, is there: file exists",
		},
		{
			"replace link flannel.1 type vxlan mtu 1450 up id 1 dev eth0 local 192.168.64.3 port 4789",
			"replace link flannel.1 type vxlan mtu 1450 up id 1 dev eth0 local 192.168.64.3 port 4789: " +
				"port is 8472 and cannot become 4789; delete and create the link: not supported by kernel",
		},
		{
			"add route 10.5.3.0/24 via 10.5.3.0 dev flannel.1",
			"add route 10.5.3.0/24 via 10.5.3.0 dev flannel.1: gateway is unreachable: " +
				"network is unreachable (Nexthop has invalid gateway)",
		},
		{
			"add route 10.5.3.0/24 via 10.5.3.0 dev flannel.9 onlink",
			"add route 10.5.3.0/24 via 10.5.3.0 dev flannel.9 onlink: not found: link flannel.9: no such device",
		},
		{
			"del route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink",
			"del route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink: not found: no such process",
		},
		{
			"replace sysctl net/ipv6/conf/flannel.9/accept_ra = 0",
			"replace sysctl net/ipv6/conf/flannel.9/accept_ra = 0: not found: " +
				"open /proc/sys/net/ipv6/conf/flannel.9/accept_ra: no such file or directory",
		},
	} {
		err := w.d.Apply(t.Context(), ops(t, c.op))[0]
		if err == nil || err.Error() != c.want {
			t.Errorf("error\n%v\nwant\n%s", err, c.want)
		}
	}
}

// TestLinkMovedAway moves a vxlan device into another namespace, where it keeps its VNI and port here.
func TestLinkMovedAway(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	if err := w.host.LinkSetNsFd(must(w.host.LinkByName(benchLink)), int(w.farNS)); err != nil {
		t.Fatal(err)
	}
	again := "add link flannel.1 type vxlan mtu 1450 id 1 dev eth0 local 192.168.64.3 port 8472"
	err := w.d.Apply(t.Context(), ops(t, again))[0]
	if !errors.Is(err, driver.ErrExists) || !strings.Contains(err.Error(), "has moved to another network namespace") {
		t.Errorf("error %v", err)
	}
}

// TestFDBEntryWithItsOwnVNI adds an entry with a VNI of its own: it reads back as an
// entry that no node wants, and can be replaced.
func TestFDBEntryWithItsOwnVNI(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	mac := dataplane.MAC{2, 0, 0, 0, 0, 3}
	if err := w.host.NeighAdd(&netlink.Neigh{
		LinkIndex: must(w.host.LinkByName(benchLink)).Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF,
		State: netlink.NUD_PERMANENT, HardwareAddr: mac[:], IP: net.IPv4(192, 168, 64, 4), VNI: 5,
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0.0.0.0", "192.168.64.4"} {
		entry := dataplane.FDBEntry{FDBKey: dataplane.FDBKey{Link: benchLink, MAC: mac}, Dst: netip.MustParseAddr(want)}
		s := w.look(t, benchExtent)
		if got, _ := s.FDB.Get(entry.FDBKey); got != entry {
			t.Errorf("observed %s, want %s", got, entry)
		}
		apply(t, w.d, ops(t, "replace fdb 02:00:00:00:00:03 dst 192.168.64.4 dev flannel.1"))
	}
}

// TestMultipath adds a route with two paths in one attribute, which the suite
// cannot make for IPv4.
func TestMultipath(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	index := must(w.host.LinkByName("eth0")).Attrs().Index
	if err := w.host.RouteAdd(&netlink.Route{
		Dst: linuxtest.IPNet(netip.MustParsePrefix("10.5.3.0/24")), Protocol: dataplane.Protocol,
		MultiPath: []*netlink.NexthopInfo{
			{LinkIndex: index, Gw: net.IPv4(192, 168, 64, 4)}, {LinkIndex: index, Gw: net.IPv4(192, 168, 64, 5)},
		},
	}); err != nil {
		t.Fatal(err)
	}
	key := dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.3.0/24")}
	s := w.look(t, dataplane.Extent{Links: []string{"eth0"}})
	got, _ := s.Routes.Get(key)
	if got, want := got.String(), "route 10.5.3.0/24 other multipath"; got != want {
		t.Fatalf("observed %s, want %s", got, want)
	}
	apply(t, w.d, []dataplane.Op{{Verb: dataplane.Delete, Object: got}})
	s = w.look(t, dataplane.Extent{Links: []string{"eth0"}})
	if got, there := s.Routes.Get(key); there {
		t.Errorf("%s is still there", got)
	}
}

// TestRouteMetrics repairs routes that another program has given an MTU.
func TestRouteMetrics(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	w.do(t, "add addr fd00:a::3/64 dev eth0")
	for _, line := range []string{
		"route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink", "route fd00:5:3::/64 via fd00:a::5 dev eth0",
	} {
		want := ops(t, "replace "+line)
		apply(t, w.d, want)
		family := ""
		if strings.Contains(line, "fd00") {
			family = "-6 "
		}
		w.ip(t, family+strings.Replace(line, "route", "route change", 1)+" proto 102 mtu 1300")
		for _, form := range []string{line + " other metrics", line} {
			if got, _ := w.look(t, benchExtent).Namesake(want[0].Object); fmt.Sprint(got) != form {
				t.Errorf("observed %s, want %s", got, form)
			}
			apply(t, w.d, want)
		}
	}
}

// TestAddressDetails checks two facts that the suite cannot see: an IPv6
// address is usable at once, and of a pair of addresses the look reports ours.
func TestAddressDetails(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	apply(t, w.d, ops(t, "add addr fd00:5:1::/128 dev flannel.1"))
	l := must(w.host.LinkByName(benchLink))
	for _, a := range must(w.host.AddrList(l, netlink.FAMILY_V6)) {
		if a.Scope == unix.RT_SCOPE_UNIVERSE && a.Flags&unix.IFA_F_TENTATIVE != 0 {
			t.Errorf("address %s is tentative", a.IPNet)
		}
	}
	ours, theirs := netip.MustParsePrefix("10.5.1.0/32"), netip.MustParsePrefix("10.5.9.9/32")
	if err := w.host.AddrAdd(l, &netlink.Addr{IPNet: linuxtest.IPNet(ours), Peer: linuxtest.IPNet(theirs)}); err != nil {
		t.Fatal(err)
	}
	s := w.look(t, benchExtent)
	if _, ok := s.Addrs[dataplane.Addr{Link: benchLink, Prefix: ours}]; !ok {
		t.Errorf("observed addresses %v, want %s among them", s.Addrs, ours)
	}
}

// TestLostAnswers leaves no room for the kernel's answers.
func TestLostAnswers(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	if err := w.d.bulk.SetReceiveBuffer(1); err != nil {
		t.Fatal(err)
	}
	neighs := peerOps(dataplane.Delete, 300)[:300]
	lost := 0
	for i, err := range w.d.Apply(t.Context(), neighs) {
		switch {
		case errors.Is(err, driver.ErrBusy):
			lost++
		case !errors.Is(err, driver.ErrNotFound):
			t.Errorf("op %d: error %v", i, err)
		}
	}
	if lost == 0 {
		t.Error("no answer was lost: the test does not reach the case")
	}
	if err := w.d.bulk.SetReceiveBuffer(1 << 20); err != nil {
		t.Fatal(err)
	}
	// The answers still in the socket belong to no request.
	apply(t, w.d, ops(t, "add neigh 10.5.3.0 lladdr 02:00:00:00:00:03 dev flannel.1"))
	if s := w.look(t, benchExtent); s.Neighs.Len() != 1 {
		t.Errorf("observed %d neighbours, want 1", s.Neighs.Len())
	}
}

func TestCancelled(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.d.Apply(ctx, ops(t, "del addr 127.0.0.1/8 dev lo"))[0]; !errors.Is(err, context.Canceled) {
		t.Errorf("Apply: error %v", err)
	}
	if _, err := w.d.Look(ctx, benchExtent); !errors.Is(err, context.Canceled) {
		t.Errorf("Look: error %v", err)
	}
	if _, err := New(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("New: error %v", err)
	}
}

// TestNew opens a driver in the process's own namespace and only looks.
func TestNew(t *testing.T) {
	d, err := New(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	seen, err := d.Look(t.Context(), dataplane.Extent{Sysctls: []dataplane.Sysctl{
		{Path: "net/ipv4/ip_forward"},
		{Path: "net/no/such"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	links := seen.Facts.(driver.HostFacts).Links
	if len(links) == 0 || !links[0].Loopback {
		t.Errorf("first link is not the loopback: %+v", links)
	}
	if sysctls := seen.State.Sysctls; len(sysctls) != 1 {
		t.Errorf("observed sysctls %v, want one", sysctls)
	}
}

// TestGoneLinkIsNamedByNumber plays a race: a link goes away between two
// readings.
func TestGoneLinkIsNamedByNumber(t *testing.T) {
	w := newWorld(t)
	name, err := newLinks(w.d.query, w.d.wg).nameOf(77)
	if err != nil || name != "if77" {
		t.Errorf("name %q, error %v", name, err)
	}
}

func FuzzParse(f *testing.F) {
	e := nl.Encoder{}
	e.Begin(unix.RTM_NEWROUTE, 0, 1)
	e.U8(unix.AF_INET, 24, 0, 0, unix.RT_TABLE_MAIN, 3, 0, unix.RTN_UNICAST)
	e.U32(0)
	e.AttrAddr(unix.RTA_DST, netip.MustParseAddr("10.5.3.0"))
	at := e.Nest(unix.RTA_MULTIPATH)
	e.U8(16, 0, 4, 0)
	e.U32(2)
	e.AttrAddr(unix.RTA_GATEWAY, netip.MustParseAddr("192.168.64.4"))
	e.Unnest(at)
	e.End()
	f.Add(e.Bytes())
	f.Add([]byte(strings.Repeat("\x08\x00\x01\x00", 20)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for m := range nl.Messages(b) {
			var r route
			parseRoute(m.Body, &r)
			_, _ = parseLink(m.Body)
			parseAddr(m.Body)
			if e, ok := parseEntry(m.Body); ok {
				e.neigh("x")
				e.fdb("x")
			}
		}
	})
}

// TestForeignMetrics looks at routes of another program that have an MTU: they lead where others like them do.
func TestForeignMetrics(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	w.ip(t, "route add 10.5.3.0/25 dev eth0 mtu 1300")
	want := ops(t, "add route 10.5.3.0/25 dev eth0 scope 253 proto 3")[0].Object
	if got, _ := w.look(t, dataplane.Extent{Links: []string{"eth0"}}).Namesake(want); got != want {
		t.Errorf("observed %v, want %s", got, want)
	}
}
