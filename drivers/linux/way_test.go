package linux

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// forked has two devices: packets for 10.9.0.0/16 and fd00:9::/32 leave by other, and those
// of TCP to port 80 by web, through a gateway.
func forked(t *testing.T) *world {
	w := newWorld(t)
	add := func(name string, addrs ...string) netlink.Link {
		link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
		if err := errors.Join(w.host.LinkAdd(link), w.host.LinkSetUp(link)); err != nil {
			t.Fatal(err)
		}
		for _, a := range addrs {
			addr := &netlink.Addr{IPNet: linuxtest.IPNet(netip.MustParsePrefix(a)), Flags: unix.IFA_F_NODAD}
			if err := w.host.AddrAdd(link, addr); err != nil {
				t.Fatal(err)
			}
		}
		return link
	}
	other, web := add("other", "10.8.0.1/24", "fd00:8::1/64"), add("web", "10.7.0.1/24", "fd00:7::1/64")
	for _, f := range []struct {
		family       int
		dst, gateway string
	}{{unix.AF_INET, "10.9.0.0/16", "10.7.0.2"}, {unix.AF_INET6, "fd00:9::/32", "fd00:7::2"}} {
		dst := linuxtest.IPNet(netip.MustParsePrefix(f.dst))
		rule := netlink.NewRule()
		rule.Family, rule.IPProto = f.family, unix.IPPROTO_TCP
		rule.Table, rule.Priority = 100, 50
		rule.Dport = netlink.NewRulePortRange(80, 80)
		byMark := netlink.NewRule()
		byMark.Family, byMark.Mark = f.family, 7
		byMark.Table, byMark.Priority = 100, 51
		err := errors.Join(
			w.host.RouteAdd(&netlink.Route{Dst: dst, LinkIndex: other.Attrs().Index, MTU: 1300}),
			w.host.RouteAdd(&netlink.Route{Dst: dst, LinkIndex: web.Attrs().Index, Table: 100,
				Gw: netip.MustParseAddr(f.gateway).AsSlice()}),
			w.host.RuleAdd(rule), w.host.RuleAdd(byMark))
		if err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// TestWayByPort checks that the kernel applies the rules for a protocol and a port, and for a mark, to
// packets that the host sends, and names the table of the way.
func TestWayByPort(t *testing.T) {
	w := forked(t)
	addr := netip.MustParseAddr
	plain := driver.Way{Kind: unix.RTN_UNICAST, Link: "other", Src: addr("10.8.0.1"), MTU: 1300, Table: 254}
	plain6 := driver.Way{Kind: unix.RTN_UNICAST, Link: "other", Src: addr("fd00:8::1"), MTU: 1300,
		Table: 254}
	for _, c := range []struct {
		packet driver.Packet
		want   driver.Way
	}{
		{driver.Packet{Dst: addr("10.9.0.1")}, plain},
		{driver.Packet{Dst: addr("10.9.0.1"), Protocol: unix.IPPROTO_ICMP}, plain},
		{driver.Packet{Dst: addr("10.9.0.1"), Protocol: unix.IPPROTO_ESP}, plain},
		{driver.Packet{Dst: addr("10.9.0.1"), Protocol: unix.IPPROTO_TCP, Port: 81}, plain},
		{driver.Packet{Dst: addr("10.9.0.1"), Protocol: unix.IPPROTO_UDP, Port: 80}, plain},
		{driver.Packet{Dst: addr("10.9.0.1"), Protocol: unix.IPPROTO_TCP, Port: 80},
			driver.Way{Kind: unix.RTN_UNICAST, Link: "web", Via: addr("10.7.0.2"), Src: addr("10.7.0.1"), Table: 100}},
		{driver.Packet{Src: addr("10.8.0.1"), Dst: addr("10.9.0.1"), Protocol: unix.IPPROTO_TCP, Port: 80},
			driver.Way{Kind: unix.RTN_UNICAST, Link: "web", Via: addr("10.7.0.2"), Table: 100}},
		{driver.Packet{Dst: addr("10.9.0.1"), Mark: 7},
			driver.Way{Kind: unix.RTN_UNICAST, Link: "web", Via: addr("10.7.0.2"), Src: addr("10.7.0.1"), Table: 100}},
		{driver.Packet{Dst: addr("fd00:9::1"), Protocol: unix.IPPROTO_ICMPV6}, plain6},
		{driver.Packet{Dst: addr("fd00:9::1"), Protocol: unix.IPPROTO_TCP, Port: 80},
			driver.Way{Kind: unix.RTN_UNICAST, Link: "web", Via: addr("fd00:7::2"), Src: addr("fd00:7::1"), Table: 100}},
		{driver.Packet{Dst: addr("10.7.0.1"), Protocol: unix.IPPROTO_TCP},
			driver.Way{Kind: unix.RTN_LOCAL, Link: "lo", Src: addr("10.7.0.1"), Table: 255}},
	} {
		got, err := w.d.Way(c.packet)
		if d := cmp.Diff(c.want, got, cmpopts.EquateComparable(netip.Addr{})); d != "" || err != nil {
			t.Errorf("%+v: %v, (-want +got):\n%s", c.packet, err, d)
		}
	}
}

// TestWayByPortOfForwardedPackets checks the same for a packet that comes in by a device.
func TestWayByPortOfForwardedPackets(t *testing.T) {
	w := forked(t)
	on := dataplane.Forwarding(cidr.V4)
	if err := errors.Join(w.d.Apply(t.Context(), []dataplane.Op{{Verb: dataplane.Create, Object: on}})...); err != nil {
		t.Fatal(err)
	}
	p := driver.Packet{Src: netip.MustParseAddr("10.8.0.9"), Dst: netip.MustParseAddr("10.9.0.1"), In: "other",
		Protocol: unix.IPPROTO_TCP}
	for port, want := range map[uint16]string{79: "other", 80: "web"} {
		p.Port = port
		if got, err := w.d.Way(p); err != nil || got.Link != want {
			t.Errorf("port %d: %+v, %v", port, got, err)
		}
	}
	p.In = "absent"
	if _, err := w.d.Way(p); !errors.Is(err, unix.ENODEV) {
		t.Errorf("by a device that is not there: %v", err)
	}
	if _, err := w.d.Way(driver.Packet{Dst: netip.MustParseAddr("10.99.0.1")}); !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("without a route: %v", err)
	}
}
