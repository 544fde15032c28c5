package uplink

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/driver"
)

var (
	on4  = config.Range{Network: netip.MustParsePrefix("10.5.0.0/16")}
	on6  = config.Range{Network: netip.MustParsePrefix("fd00:10:5::/48")}
	v4   = config.Network{V4: on4}
	v6   = config.Network{V6: on6}
	dual = config.Network{V4: on4, V6: on6}
)

var byValue = cmpopts.EquateComparable(netip.Addr{})

func permanent(prefix string) driver.LinkAddr {
	p := netip.MustParsePrefix(prefix)
	return driver.LinkAddr{Prefix: p, LinkLocal: p.Addr().IsLinkLocalUnicast(), Permanent: true}
}

func route(dst string, metric uint32, hops ...driver.Hop) driver.Route {
	return driver.Route{Dst: netip.MustParsePrefix(dst), Metric: metric, Hops: hops}
}

func via(link, gateway string) driver.Hop {
	return driver.Hop{Link: link, Via: netip.MustParseAddr(gateway)}
}

func on(link string) driver.Hop { return driver.Hop{Link: link} }

// facts of a host with two dual-stack links, one link of each family alone,
// and some that cannot serve.
func facts() driver.HostFacts {
	return driver.HostFacts{
		Links: []driver.Link{
			{Name: "lo", Index: 1, MTU: 65536, Up: true, Loopback: true,
				Addrs: []driver.LinkAddr{permanent("127.0.0.1/8"), permanent("::1/128")}},
			{Name: "eth0", Index: 2, MTU: 1500, Up: true, Addrs: []driver.LinkAddr{
				permanent("192.168.1.3/24"), permanent("192.168.1.4/24"), permanent("fe80::1/64"), permanent("fd00:1::3/64"),
			}},
			{Name: "eth1", Index: 3, MTU: 9000, Up: true, Addrs: []driver.LinkAddr{
				permanent("172.16.0.3/16"), permanent("10.9.0.3/24"), permanent("fd00:2::3/64"), permanent("fd00:3::3/64"),
			}},
			{Name: "four", Index: 4, MTU: 1400, Addrs: []driver.LinkAddr{permanent("192.168.4.3/24")}},
			{Name: "six", Index: 5, MTU: 1300, Addrs: []driver.LinkAddr{permanent("fd00:6::3/64")}},
			{Name: "bare", Index: 6, MTU: 1500, Up: true},
			{Name: "zero", Index: 7, Addrs: []driver.LinkAddr{permanent("192.168.7.3/24"), permanent("fd00:7::3/64")}},
		},
		Routes: []driver.Route{
			route("0.0.0.0/0", 200, via("eth1", "172.16.0.1")),
			route("0.0.0.0/0", 100, via("eth0", "192.168.1.1")),
			route("192.168.1.0/24", 0, on("eth0")),
			route("172.16.0.0/16", 0, on("eth1")),
			route("192.168.9.0/24", 0, via("eth1", "10.9.0.1")),
			route("192.168.8.0/24", 0, on("gone")),
			{Dst: netip.MustParsePrefix("192.168.10.0/24"), Hops: []driver.Hop{on("eth0")},
				Src: netip.MustParseAddr("192.168.1.4")},
			route("fd00:1::/64", 256, on("eth0")),
			route("::/0", 1024, via("eth0", "fe80::ff")),
			route("fd00:9::/64", 1024, via("eth1", "fd00:3::1")),
		},
	}
}

// result is an Uplink in text.
type result struct{ link, ip, ipv6, public, public6 string }

var (
	eth0v4 = result{"eth0", "192.168.1.3", "", "192.168.1.3", ""}
	eth0v6 = result{"eth0", "", "fd00:1::3", "", "fd00:1::3"}
	eth0   = result{"eth0", "192.168.1.3", "fd00:1::3", "192.168.1.3", "fd00:1::3"}
	eth1   = result{"eth1", "172.16.0.3", "fd00:2::3", "172.16.0.3", "fd00:2::3"}
)

var selections = []struct {
	name    string
	opts    Options
	network config.Network
	want    result
}{
	{"default, IPv4", Options{}, v4, eth0v4},
	{"default, IPv6", Options{}, v6, eth0v6},
	{"default, dual", Options{}, dual, eth0},

	{"address, IPv4", Options{Ifaces: []string{"192.168.1.4"}}, v4, result{"eth0", "192.168.1.4", "", "192.168.1.4", ""}},
	{"address, IPv6", Options{Ifaces: []string{"fd00:3::3"}}, v6, result{"eth1", "", "fd00:3::3", "", "fd00:3::3"}},
	{"address, dual", Options{Ifaces: []string{"10.9.0.3"}}, dual,
		result{"eth1", "10.9.0.3", "fd00:2::3", "10.9.0.3", "fd00:2::3"}},
	{"IPv6 address, dual", Options{Ifaces: []string{"fd00:3::3"}}, dual,
		result{"eth1", "172.16.0.3", "fd00:3::3", "172.16.0.3", "fd00:3::3"}},
	{
		"address and public IPv6 address, dual", Options{Ifaces: []string{"10.9.0.3"}, PublicIPv6: "fd00:3::3"}, dual,
		result{"eth1", "10.9.0.3", "fd00:3::3", "10.9.0.3", "fd00:3::3"},
	},
	{
		"IPv6 address and public addresses, dual", Options{Ifaces: []string{"fd00:3::3"}, PublicIP: "1.2.3.4",
			PublicIPv6: "2001:db8::1"}, dual,
		result{"eth1", "172.16.0.3", "fd00:3::3", "1.2.3.4", "2001:db8::1"},
	},
	{"IPv6 address, IPv4", Options{Ifaces: []string{"fd00:1::3"}}, v4, eth0v4},
	{"loopback address, if asked for", Options{Ifaces: []string{"127.0.0.1"}}, v4,
		result{"lo", "127.0.0.1", "", "127.0.0.1", ""}},

	{"name, IPv4", Options{Ifaces: []string{"eth0"}}, v4, eth0v4},
	{"name, IPv6", Options{Ifaces: []string{"eth0"}}, v6, eth0v6},
	{"name, dual", Options{Ifaces: []string{"eth1"}}, dual, eth1},
	{"name of a link that is down", Options{Ifaces: []string{"four"}}, v4,
		result{"four", "192.168.4.3", "", "192.168.4.3", ""}},
	{"second name", Options{Ifaces: []string{"wlan0", "eth1"}}, dual, eth1},

	{"regex on addresses, IPv4", Options{Regexes: []string{`^10\.9\.`}}, v4,
		result{"eth1", "10.9.0.3", "", "10.9.0.3", ""}},
	{"regex on addresses, IPv6", Options{Regexes: []string{`^fd00:3:`}}, v6,
		result{"eth1", "", "fd00:3::3", "", "fd00:3::3"}},
	{"regex on addresses, dual", Options{Regexes: []string{`^10\.9\.|^fd00:3:`}}, dual,
		result{"eth1", "10.9.0.3", "fd00:3::3", "10.9.0.3", "fd00:3::3"}},
	{"regex is not anchored", Options{Regexes: []string{`9\.0`}}, v4, result{"eth1", "10.9.0.3", "", "10.9.0.3", ""}},
	{"regex takes the first link", Options{Regexes: []string{`.`}}, dual, eth0},
	{"regex on the name, IPv4", Options{Regexes: []string{`^eth[1-9]`}}, v4,
		result{"eth1", "172.16.0.3", "", "172.16.0.3", ""}},
	{"regex on the name, IPv6", Options{Regexes: []string{`^six$`}}, v6, result{"six", "", "fd00:6::3", "", "fd00:6::3"}},
	{"regex on the name, dual", Options{Regexes: []string{`^eth[1-9]`}}, dual, eth1},
	{
		// Upstream keeps 192.168.1.4 and publishes it for eth1 (interop F8).
		"regex that matches half of eth0, dual", Options{Regexes: []string{`^192\.168\.1\.4$|^eth1$`}}, dual, eth1,
	},
	{"regex after a name that failed", Options{Ifaces: []string{"bare"}, Regexes: []string{"eth1"}}, v4,
		result{"eth1", "172.16.0.3", "", "172.16.0.3", ""}},

	{"can reach on the link, IPv4", Options{CanReach: "192.168.1.77"}, v4, eth0v4},
	{"can reach by default route, IPv4", Options{CanReach: "8.8.8.8"}, v4, eth0v4},
	{"can reach by gateway, source in its subnet", Options{CanReach: "192.168.9.1"}, v4,
		result{"eth1", "10.9.0.3", "", "10.9.0.3", ""}},
	{"can reach, source of the route", Options{CanReach: "192.168.10.1"}, v4,
		result{"eth0", "192.168.1.4", "", "192.168.1.4", ""}},
	{"can reach without a route, by the address", Options{CanReach: "10.9.0.77"}, v4,
		result{"eth1", "10.9.0.3", "", "10.9.0.3", ""}},
	{"can reach, IPv6", Options{CanReach: "fd00:9::1"}, v6, result{"eth1", "", "fd00:3::3", "", "fd00:3::3"}},
	{"can reach by link-local gateway, IPv6", Options{CanReach: "2001:db8::1"}, v6, eth0v6},
	{"can reach, dual", Options{CanReach: "192.168.9.1"}, dual,
		result{"eth1", "10.9.0.3", "fd00:2::3", "10.9.0.3", "fd00:2::3"}},
	{"can reach IPv6, dual", Options{CanReach: "fd00:9::1"}, dual,
		result{"eth1", "172.16.0.3", "fd00:3::3", "172.16.0.3", "fd00:3::3"}},
	{"can reach after all others failed",
		Options{Ifaces: []string{"wlan0"}, Regexes: []string{"wlan"}, CanReach: "8.8.8.8"}, v4, eth0v4},

	{"public address, IPv4", Options{PublicIP: "10.9.0.3"}, v4, result{"eth1", "10.9.0.3", "", "10.9.0.3", ""}},
	{"public address, IPv6", Options{PublicIPv6: "fd00:3::3"}, v6, result{"eth1", "", "fd00:3::3", "", "fd00:3::3"}},
	{"public address, dual", Options{PublicIP: "10.9.0.3"}, dual,
		result{"eth1", "10.9.0.3", "fd00:2::3", "10.9.0.3", "fd00:2::3"}},
	{"public IPv6 address, dual", Options{PublicIPv6: "fd00:3::3"}, dual,
		result{"eth1", "172.16.0.3", "fd00:3::3", "172.16.0.3", "fd00:3::3"}},
	{"public addresses, dual", Options{PublicIP: "10.9.0.3", PublicIPv6: "fd00:3::3"}, dual,
		result{"eth1", "10.9.0.3", "fd00:3::3", "10.9.0.3", "fd00:3::3"}},
	{"public address of a family that is off", Options{PublicIPv6: "fd00:3::3"}, v4, eth0v4},
	{"public address behind NAT", Options{Ifaces: []string{"eth0"}, PublicIP: "1.2.3.4"}, v4,
		result{"eth0", "192.168.1.3", "", "1.2.3.4", ""}},
	{
		"public addresses behind NAT, dual", Options{Regexes: []string{"eth0"}, PublicIP: "1.2.3.4",
			PublicIPv6: "2001:db8::1"}, dual,
		result{"eth0", "192.168.1.3", "fd00:1::3", "1.2.3.4", "2001:db8::1"},
	},
}

func TestSelect(t *testing.T) {
	for _, c := range selections {
		t.Run(c.name, func(t *testing.T) {
			u, err := Select(c.opts, c.network, Host{Facts: facts()})
			if err != nil {
				t.Fatal(err)
			}
			got := result{u.Link, text(u.IP), text(u.IPv6), text(u.PublicIP), text(u.PublicIPv6)}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			for _, l := range facts().Links {
				if l.Name == u.Link && !l.Loopback && l.MTU != u.MTU {
					t.Errorf("MTU %d, want %d", u.MTU, l.MTU)
				}
			}
		})
	}
}

// The uplink reports the selectors that failed before one fitted (interop section 8).
func TestPassedOver(t *testing.T) {
	for want, opts := range map[string]Options{
		"": {Ifaces: []string{"eth1", "wlan0"}},
		`--iface "wlan0": there is no interface of that name; --iface-regex "wlan": no interface matches by its addresses ` +
			`or its name`: {
			Ifaces: []string{"wlan0"}, Regexes: []string{"wlan"}, CanReach: "8.8.8.8",
		},
	} {
		if u, err := Select(opts, v4, Host{Facts: facts()}); err != nil || u.PassedOver != want {
			t.Errorf("%+v: passed over %q, error %v; want %q", opts, u.PassedOver, err, want)
		}
	}
}

// TestUnreachable lists the addresses of --iface-can-reach that deserve a warning.
func TestUnreachable(t *testing.T) {
	down := facts()
	down.Routes = nil
	for i := range down.Links {
		down.Links[i].Up = down.Links[i].Name != "eth1"
	}
	for _, c := range []struct {
		address string
		facts   driver.HostFacts
		want    string
	}{
		{"", down, ""},
		{"192.168.1.77", down, ""},
		{"172.16.0.77", down, "the route to 172.16.0.77 leaves through eth1, which is down"},
		{"8.8.8.8", down, "there is no route to 8.8.8.8"},
		{"gateway", down, "want an IP address"},
		{"224.0.0.1", facts(), "224.0.0.1 is not the address of another host"},
		{"0.0.0.0", facts(), "0.0.0.0 is not the address of another host"},
	} {
		if c.want != "" {
			c.want = fmt.Sprintf("--iface-can-reach %q: %s", c.address, c.want)
		}
		opts := Options{Ifaces: []string{"eth0"}, CanReach: c.address}
		if got := opts.Unreachable(c.facts); got != c.want {
			t.Errorf("%q: warning %q, want %q", c.address, got, c.want)
		}
	}
}

func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func TestSelectErrors(t *testing.T) {
	for _, c := range []struct {
		opts    Options
		network config.Network
		want    string
	}{
		{Options{Ifaces: []string{"wlan0"}}, v4, `no usable interface: --iface "wlan0": there is no interface of that name`},
		{Options{Ifaces: []string{"bare"}}, v4,
			`no usable interface: --iface "bare": interface bare has no usable IPv4 address`},
		{Options{Ifaces: []string{"lo"}}, v4, `no usable interface: --iface "lo": interface lo has no usable IPv4 address`},
		{Options{Ifaces: []string{"four"}}, v6,
			`no usable interface: --iface "four": interface four has no usable IPv6 address`},
		{Options{Ifaces: []string{"four"}}, dual,
			`no usable interface: --iface "four": interface four has no usable IPv6 address`},
		{Options{Ifaces: []string{"six"}}, dual,
			`no usable interface: --iface "six": interface six has no usable IPv4 address`},
		{Options{Ifaces: []string{"zero"}}, dual, `no usable interface: --iface "zero": interface zero has MTU 0`},
		{Options{Ifaces: []string{"192.168.1.99"}}, v4,
			`no usable interface: --iface "192.168.1.99": no interface has address 192.168.1.99`},
		{Options{Ifaces: []string{"fd00:1::99"}}, v6,
			`no usable interface: --iface "fd00:1::99": no interface has address fd00:1::99`},
		{Options{Ifaces: []string{"fd00:6::3"}}, dual,
			`no usable interface: --iface "fd00:6::3": interface six has no usable IPv4 address`},
		{
			Options{Ifaces: []string{"192.168.1.3"}, PublicIPv6: "fd00:2::3"}, dual,
			`no usable interface: --iface "192.168.1.3": interface eth0 has no address fd00:2::3 (--public-ipv6)`,
		},
		{Options{Regexes: []string{"("}}, v4,
			"no usable interface: --iface-regex \"(\": error parsing regexp: missing closing ): `(`"},
		{Options{Regexes: []string{"^wlan"}}, v4,
			`no usable interface: --iface-regex "^wlan": no interface matches by its addresses or its name`},
		{Options{Regexes: []string{`^192\.168\.1\.`}}, dual,
			`no usable interface: --iface-regex "^192\\.168\\.1\\.": no interface matches by its addresses or its name`},
		{Options{Regexes: []string{"^four$"}}, dual,
			`no usable interface: --iface-regex "^four$": interface four has no usable IPv6 address`},
		{Options{CanReach: "gateway"}, v4, `no usable interface: --iface-can-reach "gateway": want an IP address`},
		{Options{CanReach: "192.168.8.1"}, v4,
			`no usable interface: --iface-can-reach "192.168.8.1": the route to 192.168.8.1 leaves through unknown interface ` +
				`"gone"`},
		{
			Options{Ifaces: []string{"wlan0", "bare"}, Regexes: []string{"^wlan"}, CanReach: "x"}, v4,
			`no usable interface: --iface "wlan0": there is no interface of that name; --iface "bare": interface bare has no ` +
				`usable IPv4 address; ` +
				`--iface-regex "^wlan": no interface matches by its addresses or its name; --iface-can-reach "x": want an IP ` +
				`address`,
		},
		{Options{PublicIP: "1.2.3.4"}, v4, `no usable interface: --public-ip "1.2.3.4": no interface has address 1.2.3.4`},
		{Options{PublicIPv6: "2001:db8::1"}, v6,
			`no usable interface: --public-ipv6 "2001:db8::1": no interface has address 2001:db8::1`},
		{
			Options{PublicIP: "192.168.1.3", PublicIPv6: "fd00:2::3"}, dual,
			`no usable interface: --public-ip "192.168.1.3": interface eth0 has no address fd00:2::3 (--public-ipv6)`,
		},
		{Options{PublicIP: "node1"}, v4, `--public-ip "node1": want an IPv4 address that peers can reach`},
		{Options{PublicIP: "fd00::1"}, v4, `--public-ip "fd00::1": want an IPv4 address that peers can reach`},
		{Options{PublicIP: "0.0.0.0"}, v4, `--public-ip "0.0.0.0": want an IPv4 address that peers can reach`},
		{Options{Ifaces: []string{"eth0"}, PublicIPv6: "1.2.3.4"}, v4,
			`--public-ipv6 "1.2.3.4": want an IPv6 address that peers can reach`},
		{Options{PublicIPv6: "fe80::1%eth0"}, v6, `--public-ipv6 "fe80::1%eth0": want an IPv6 address that peers can reach`},
		{Options{PublicIPv6: "::ffff:1.2.3.4"}, v6,
			`--public-ipv6 "::ffff:1.2.3.4": want an IPv6 address that peers can reach`},
	} {
		if _, err := Select(c.opts, c.network, Host{Facts: facts()}); err == nil || err.Error() != c.want {
			t.Errorf("%+v\n got %v\nwant %s", c.opts, err, c.want)
		}
	}
}

func TestSelectByRouteErrors(t *testing.T) {
	none, split := facts(), facts()
	gone, blind := facts(), facts()
	none.Routes = nil
	split.Routes = []driver.Route{route("0.0.0.0/0", 0, via("eth0", "192.168.1.1")),
		route("::/0", 0, via("eth1", "fd00:2::1"))}
	gone.Routes = []driver.Route{route("0.0.0.0/0", 0, via("gone", "192.168.1.1"))}
	blind.Routes = []driver.Route{route("0.0.0.0/0", 0)}
	for _, c := range []struct {
		opts    Options
		network config.Network
		facts   driver.HostFacts
		want    string
	}{
		{Options{}, v4, none, `no usable interface: default route: there is no IPv4 default route`},
		{Options{}, v6, none, `no usable interface: default route: there is no IPv6 default route`},
		{Options{}, dual, gone, `no usable interface: default route: the IPv4 default route leaves through unknown ` +
			`interface "gone"`},
		{Options{}, dual, split, `no usable interface: default route: the IPv4 route leaves through eth0, the IPv6 route ` +
			`through eth1: choose with --iface`},
		{Options{}, v4, blind, `no usable interface: default route: there is no IPv4 default route`},
		{Options{CanReach: "8.8.8.8"}, v4, none,
			`no usable interface: --iface-can-reach "8.8.8.8": there is no route to 8.8.8.8`},
		{Options{CanReach: "8.8.8.8"}, v4, blind,
			`no usable interface: --iface-can-reach "8.8.8.8": there is no route to 8.8.8.8`},
	} {
		if _, err := Select(c.opts, c.network, Host{Facts: c.facts}); err == nil || err.Error() != c.want {
			t.Errorf("%+v\n got %v\nwant %s", c.opts, err, c.want)
		}
	}
}

func TestBestAddress(t *testing.T) {
	global, local := permanent("fd00::1/64"), permanent("fe80::1/64")
	dynamic, temporary := permanent("fd00::2/64"), permanent("fd00::3/64")
	deprecated := permanent("fd00::4/64")
	dynamic.Permanent = false
	temporary.Permanent, temporary.Temporary = false, true
	deprecated.Deprecated = true
	for _, c := range []struct {
		name  string
		addrs []driver.LinkAddr
		want  string
	}{
		{"global before link-local", []driver.LinkAddr{local, global}, "fd00::1"},
		{"dynamic global before link-local", []driver.LinkAddr{local, dynamic}, "fd00::2"},
		{"permanent before dynamic", []driver.LinkAddr{dynamic, global}, "fd00::1"},
		{"lasting before temporary", []driver.LinkAddr{temporary, dynamic}, "fd00::2"},
		{"first of equals", []driver.LinkAddr{permanent("fd00::9/64"), global}, "fd00::9"},
		{"link-local rather than none", []driver.LinkAddr{local}, "fe80::1"},
		{"link-local rather than deprecated", []driver.LinkAddr{deprecated, local}, "fe80::1"},
		{"neither deprecated, loopback, multicast nor the other family", []driver.LinkAddr{
			deprecated, permanent("::1/128"), permanent("ff02::1/128"), permanent("192.168.1.3/24"),
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := driver.HostFacts{Links: []driver.Link{{Name: "eth0", MTU: 1500, Addrs: c.addrs}}}
			u, err := Select(Options{Ifaces: []string{"eth0"}}, v6, Host{Facts: f})
			if text(u.IPv6) != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %v, %v, want %s", u.IPv6, err, c.want)
			}
		})
	}
}

func TestLookup(t *testing.T) {
	multipath := route("10.3.0.0/16", 0, via("eth0", "192.168.1.1"), via("eth1", "172.16.0.1"))
	routes := []driver.Route{
		route("0.0.0.0/0", 0, on("default")),
		route("10.0.0.0/8", 0, on("eight")),
		route("10.1.0.0/16", 50, on("worse")),
		route("10.1.0.0/16", 20, on("better")),
		route("10.1.0.0/16", 20, on("later")),
		route("10.1.2.3/32", 900, on("host")),
		multipath,
		route("fd00::/8", 1024, on("six")),
	}
	for _, c := range []struct{ dst, want string }{
		{"8.8.8.8", "default"},
		{"10.2.0.1", "eight"},
		{"10.1.0.1", "better"},
		{"10.1.2.3", "host"},
		{"fd00::1", "six"},
	} {
		r, ok := lookup(routes, netip.MustParseAddr(c.dst))
		if !ok || r.Hops[0].Link != c.want {
			t.Errorf("lookup(%s) = %+v, %v, want %s", c.dst, r, ok, c.want)
		}
	}
	if r, ok := lookup(routes, netip.MustParseAddr("10.3.0.1")); !ok || !r.Equal(multipath) {
		t.Errorf("a multipath route came back as %+v, %v", r, ok)
	}
	if r, ok := lookup(routes, netip.MustParseAddr("2001:db8::1")); ok {
		t.Errorf("found %+v where there is no route", r)
	}
}

// TestSelectLeavesTheFactsAlone gives facts with spare room behind the last
// route, where an append would write. Facts belong to the caller.
func TestSelectLeavesTheFactsAlone(t *testing.T) {
	f := facts()
	f.Routes = append(make([]driver.Route, 0, 64), f.Routes...)
	if _, err := Select(Options{CanReach: "8.8.8.8"}, dual, Host{Facts: f}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(facts(), f, byValue, cmpopts.EquateComparable(netip.Prefix{})); d != "" {
		t.Errorf("facts changed (-before +after):\n%s", d)
	}
	if r := f.Routes[:len(f.Routes)+1][len(f.Routes)]; r.Dst.IsValid() {
		t.Errorf("wrote %v behind the routes", r.Dst)
	}
}

func TestDirect(t *testing.T) {
	for _, c := range []struct{ dst, want string }{
		{"192.168.1.77", "eth0"},
		{"192.168.9.1", ""}, // behind a gateway
		{"10.3.0.1", ""},    // multipath
		{"2001:db8::1", ""}, // by default route
		{"fd00:1::77", "eth0"},
	} {
		routes := append(facts().Routes, route("10.3.0.0/16", 0, on("eth0"), on("eth1")))
		if got, ok := Direct(routes, netip.MustParseAddr(c.dst)); got != c.want || ok != (c.want != "") {
			t.Errorf("Direct(%s) = %q, %v, want %q", c.dst, got, ok, c.want)
		}
	}
	if got, ok := Direct(nil, netip.MustParseAddr("192.168.1.77")); ok {
		t.Errorf("direct through %q without a route", got)
	}
}
