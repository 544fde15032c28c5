package uplink

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/driver"
)

// life chooses again and again for one host, whose facts the test changes.
type life struct {
	t       *testing.T
	opts    Options
	network config.Network
	on      Host
	memory  Memory
	now     time.Time
	last    Decision
}

func newLife(t *testing.T, opts Options) *life {
	return &life{t: t, opts: opts, network: v4, on: Host{Facts: driver.HostFacts{
		Links: []driver.Link{
			{Name: "eth0", Index: 2, MTU: 1500, Up: true, Addrs: []driver.LinkAddr{permanent("192.168.1.1/24")}},
			{Name: "eth1", Index: 3, MTU: 9000, Up: true, Addrs: []driver.LinkAddr{permanent("172.16.0.1/24")}},
		},
		Routes: []driver.Route{route("0.0.0.0/0", 100, via("eth0", "192.168.1.254")),
			route("0.0.0.0/0", 600, via("eth1", "172.16.0.254"))},
	}}}
}

// choose chooses once after some time, and wants this interface and address.
func (l *life) choose(after time.Duration, want string) {
	l.t.Helper()
	l.now = l.now.Add(after)
	l.last = Choose(l.opts, l.network, l.on, l.memory, l.now)
	l.memory = l.last.Memory
	if got := describe(l.last.Used); got != want {
		l.t.Errorf("after %s: uses %s, want %s; moved %q, trouble %v", after, got, want, l.last.Moved, l.last.Trouble)
	}
}

func (l *life) link(name string) *driver.Link {
	i := slices.IndexFunc(l.on.Facts.Links, func(o driver.Link) bool { return o.Name == name })
	return &l.on.Facts.Links[i]
}

func (l *life) trouble(want string) {
	l.t.Helper()
	if got := fmt.Sprint(l.last.Trouble); got != want {
		l.t.Errorf("trouble\n%s, want\n%s", got, want)
	}
}

var everyFlag = map[string]Options{
	"default": {}, "by name": {Ifaces: []string{"eth0"}}, "by regex": {Regexes: []string{"^eth"}},
	"by address": {Ifaces: []string{"192.168.1.1"}}, "can reach": {CanReach: "8.8.8.8"},
}

// The default route goes, the link goes down, better candidates come: the address in use stays as long as it exists.
func TestAddressInUseStays(t *testing.T) {
	for name, opts := range everyFlag {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, opts)
			const used = "eth0 192.168.1.1"
			l.choose(0, used)
			routes := l.on.Facts.Routes
			for _, r := range [][]driver.Route{routes[1:], nil, {route("0.0.0.0/0", 10, via("eth1", "172.16.0.254"))}} {
				l.on.Facts.Routes = r
				l.choose(time.Second, used)
				l.choose(time.Hour, used)
				l.trouble("<nil>")
			}
			l.link("eth0").Up = false
			l.link("eth0").Addrs = slices.Insert(l.link("eth0").Addrs, 0, permanent("192.168.1.100/24"))
			l.choose(time.Second, used)
			l.choose(time.Hour, used)
			if l.last.Used.MTU != 1500 || !l.last.At.IsZero() {
				t.Errorf("%+v", l.last)
			}
		})
	}
}

// An address that is gone has some minutes to come back. Then the node moves, and returns as soon as the former choice
// has been valid for a while.
func TestGoneAddress(t *testing.T) {
	l := newLife(t, Options{})
	l.choose(0, "eth0 192.168.1.1")
	addrs := l.link("eth0").Addrs
	l.link("eth0").Addrs = nil
	l.choose(time.Second, "eth0 192.168.1.1")
	l.trouble("interface eth0 has lost 192.168.1.1; the node keeps using it, " +
		"unless eth1 172.16.0.1 stays the better choice for 5m0s")
	if want := l.now.Add(Patience); !l.last.At.Equal(want) {
		t.Errorf("chooses again at %s, want %s", l.last.At, want)
	}
	l.link("eth0").Addrs = addrs
	l.choose(time.Minute, "eth0 192.168.1.1")
	l.trouble("<nil>")
	l.link("eth0").Addrs = nil
	l.choose(time.Hour, "eth0 192.168.1.1") // the first look that shows it
	l.choose(Patience-time.Second, "eth0 192.168.1.1")
	l.choose(time.Second, "eth1 172.16.0.1")
	if want := "interface eth0 has lost 192.168.1.1 for 5m0s"; l.last.Moved != want {
		t.Errorf("moved because %q, want %q", l.last.Moved, want)
	}
	l.choose(time.Hour, "eth1 172.16.0.1")
	l.link("eth0").Addrs = addrs
	l.link("eth0").Up = false
	l.choose(time.Hour, "eth1 172.16.0.1")
	l.choose(time.Hour, "eth1 172.16.0.1")
	l.link("eth0").Up = true
	l.choose(time.Second, "eth1 172.16.0.1")
	l.memory = Memory{Used: l.memory.Used, Left: l.memory.Left} // as after a restart
	l.choose(time.Second, "eth1 172.16.0.1")
	l.choose(Steady, "eth0 192.168.1.1")
	if l.last.Moved == "" || l.last.Left.Link != "" {
		t.Errorf("%+v", l.last)
	}
}

// A new address on the interface in use takes the place of the former one, but not one that was there before.
func TestSuccessor(t *testing.T) {
	l := newLife(t, Options{})
	l.choose(0, "eth0 192.168.1.1")
	l.link("eth0").Addrs = []driver.LinkAddr{permanent("192.168.1.77/24")}
	l.choose(time.Second, "eth0 192.168.1.77")
	if l.last.Moved == "" {
		t.Error("it moved without a word")
	}
	beside := permanent("192.168.1.150/32")
	l.link("eth0").Addrs = append(l.link("eth0").Addrs, beside)
	l.choose(time.Second, "eth0 192.168.1.77")
	l.link("eth0").Addrs = []driver.LinkAddr{beside}
	l.choose(time.Second, "eth0 192.168.1.77")
	l.choose(Patience, "eth0 192.168.1.150")
}

// An address moves along with its owner to another interface, such as a bridge that gets the network card as a port.
func TestAddressMovesToAnotherInterface(t *testing.T) {
	l := newLife(t, Options{})
	l.choose(0, "eth0 192.168.1.1")
	l.on.Facts.Links = append(l.on.Facts.Links, driver.Link{Name: "br0", Index: 9, MTU: 1500, Up: true, Bridge: true,
		Addrs: l.link("eth0").Addrs})
	l.link("eth0").Addrs, l.link("eth0").Master = nil, "br0"
	l.choose(time.Second, "br0 192.168.1.1")
}

// What a flag asks for first is preferred when it comes later, and other flags count at once.
func TestFlagsAreTheOperatorsWord(t *testing.T) {
	l := newLife(t, Options{Ifaces: []string{"eth1", "eth0"}})
	addrs := l.link("eth1").Addrs
	l.link("eth1").Addrs = nil
	l.choose(0, "eth0 192.168.1.1")
	l.link("eth1").Addrs = addrs
	l.choose(time.Second, "eth0 192.168.1.1")
	l.choose(Steady, "eth1 172.16.0.1")
	l.opts = Options{Ifaces: []string{"eth0"}}
	l.choose(time.Second, "eth0 192.168.1.1")
	if l.last.Moved != "" {
		t.Errorf("moved by itself: %s", l.last.Moved)
	}
}

// overlayFacts are those of a host with the devices of flannel and of pods, which all have default routes.
func overlayFacts() driver.HostFacts {
	return driver.HostFacts{
		Links: []driver.Link{
			{Name: "eth0", Index: 2, MTU: 1500, Up: true, Addrs: []driver.LinkAddr{permanent("192.168.1.1/24"),
				permanent("10.5.9.9/32"), permanent("169.254.1.1/16")}},
			{Name: "flannel.1", Index: 3, MTU: 1450, Up: true,
				Addrs: []driver.LinkAddr{permanent("10.5.1.0/32"), permanent("10.77.0.1/24"), permanent("169.254.77.5/16")}},
			{Name: "cni0", Index: 4, MTU: 1450, Up: true, Bridge: true, Inside: true,
				Addrs: []driver.LinkAddr{permanent("10.5.1.1/24"), permanent("10.99.0.1/24")}},
			{Name: "vp", Index: 5, MTU: 1450, Up: true, Inside: true, Master: "cni0",
				Addrs: []driver.LinkAddr{permanent("169.254.9.9/16"), permanent("10.98.0.1/24")}},
			{Name: "pods0", Index: 6, MTU: 1450, Up: true, Bridge: true, Addrs: []driver.LinkAddr{permanent("10.6.1.1/24")}},
			{Name: "wg-old", Index: 7, MTU: 1450, Up: true, Addrs: []driver.LinkAddr{permanent("10.97.0.1/24")}},
		},
		Routes: []driver.Route{route("0.0.0.0/0", 0, on("cni0")), route("0.0.0.0/0", 1, on("flannel.1")),
			route("0.0.0.0/0", 2, on("vp")), route("0.0.0.0/0", 3, on("pods0"), on("wg-old"))},
	}
}

var overlayOwn = Own{Devices: []string{"flannel.1", "wg-old"},
	Networks: []netip.Prefix{netip.MustParsePrefix("10.6.0.0/16")}}

// The CNI configuration may give the bridge of the pods any name, and a DHCP client any address.
func TestNamedBridgeOfPods(t *testing.T) {
	facts := overlayFacts()
	for i := range facts.Links {
		if facts.Links[i].Name == "pods0" {
			facts.Links[i].Addrs = []driver.LinkAddr{permanent("10.95.0.7/24")}
		}
	}
	u, err := Select(Options{Ifaces: []string{"pods0"}}, v4, Host{Facts: facts, Own: overlayOwn})
	if err != nil || u.Link != "pods0" {
		t.Fatalf("a bridge of which nothing is known: %v, %v", u, err)
	}
	own := overlayOwn
	own.Bridges = []string{"pods0"}
	const want = `no usable interface: --iface "pods0": interface pods0 cannot be the uplink: it is the bridge of the ` +
		"pods, says the CNI configuration"
	u, err = Select(Options{Ifaces: []string{"pods0"}}, v4, Host{Facts: facts, Own: own})
	if err == nil || err.Error() != want {
		t.Errorf("%v, %v\nwant %s", u, err, want)
	}
}

// No flag makes a device or an address of the overlay the uplink, and the error names both and says why.
func TestNothingOfTheOverlay(t *testing.T) {
	for _, c := range []struct {
		opts Options
		want string
	}{
		{Options{}, "default route: the only IPv4 default routes do not count: interface cni0 cannot be the uplink: " +
			"it is the bridge of the pods: it has 10.5.1.1 of the network 10.5.0.0/16"},
		{Options{Ifaces: []string{"flannel.1"}},
			`--iface "flannel.1": interface flannel.1 cannot be the uplink: it is a device of flannel`},
		{Options{Ifaces: []string{"10.97.0.1"}},
			`--iface "10.97.0.1": interface wg-old cannot be the uplink: it is a device of flannel`},
		{Options{Ifaces: []string{"10.5.9.9"}}, `--iface "10.5.9.9": 10.5.9.9 is inside the network 10.5.0.0/16`},
		{Options{Ifaces: []string{"169.254.1.1"}}, `--iface "169.254.1.1": 169.254.1.1 is link-local`},
		{Options{Ifaces: []string{"pods0"}}, `--iface "pods0": interface pods0 cannot be the uplink: it is the bridge ` +
			`of the pods: it has 10.6.1.1 of the network 10.6.0.0/16`},
		{Options{Ifaces: []string{"vp"}},
			`--iface "vp": interface vp cannot be the uplink: it is a port of cni0, the bridge of the pods`},
		{Options{Regexes: []string{`^10\.9[0-9]`}}, `--iface-regex "^10\\.9[0-9]": nothing else matches, but interface ` +
			`cni0 cannot be the uplink: it is the bridge of the pods: it has 10.5.1.1 of the network 10.5.0.0/16, ` +
			`interface vp cannot be the uplink: it is a port of cni0, the bridge of the pods, ` +
			`interface wg-old cannot be the uplink: ` +
			`it is a device of flannel`},
		{Options{Regexes: []string{`^169\.254\.1\.`}},
			`--iface-regex "^169\\.254\\.1\\.": nothing else matches, but interface eth0: 169.254.1.1 is link-local`},
		{Options{PublicIP: "10.97.0.1"},
			`--public-ip "10.97.0.1": interface wg-old cannot be the uplink: it is a device of flannel`},
		{Options{CanReach: "8.8.8.8"}, `--iface-can-reach "8.8.8.8": interface cni0 cannot be the uplink: it is the ` +
			`bridge of the pods: it has 10.5.1.1 of the network 10.5.0.0/16`},
	} {
		u, err := Select(c.opts, v4, Host{overlayFacts(), overlayOwn})
		if got := strings.TrimPrefix(fmt.Sprint(err), "no usable interface: "); got != c.want {
			t.Errorf("%+v: %+v\n got %s\nwant %s", c.opts, u, got, c.want)
		}
	}
	opts := Options{Ifaces: []string{"eth0"}, PublicIP: "10.5.1.1"}
	const want = `--public-ip "10.5.1.1": the address is inside the network 10.5.0.0/16, and no peer reaches it`
	if _, err := Select(opts, v4, Host{overlayFacts(), overlayOwn}); fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	f := overlayFacts()
	f.Routes = append(f.Routes, route("0.0.0.0/0", 600, via("eth0", "192.168.1.254")))
	u, err := Select(Options{}, v4, Host{f, overlayOwn})
	if describe(u) != "eth0 192.168.1.1" {
		t.Errorf("%+v, %v", u, err)
	}
}

// An address in doubt is no candidate, and the address of a former choice in doubt has patience, too.
func TestDuplicateAddresses(t *testing.T) {
	l := newLife(t, Options{Ifaces: []string{"eth0"}})
	l.network = v6
	good, doubtful := permanent("fd00:1::3/64"), permanent("fd00:1::4/64")
	doubtful.Tentative = true
	l.link("eth0").Addrs = []driver.LinkAddr{doubtful}
	l.choose(0, "")
	l.trouble(`no usable interface: --iface "eth0": interface eth0 has no usable IPv6 address: fd00:1::4 is tentative: ` +
		`the kernel looks for another host with it`)
	l.link("eth0").Addrs = []driver.LinkAddr{doubtful, good}
	l.choose(time.Second, "eth0 fd00:1::3")
	l.link("eth0").Addrs[1].Duplicate = true
	l.choose(time.Second, "eth0 fd00:1::3")
	l.trouble("fd00:1::3 is a duplicate: another host has it; the node keeps using it")
}

// A former run of an older version may have taken a device of the overlay: that is not kept.
func TestFormerChoiceOfTheOverlay(t *testing.T) {
	l := newLife(t, Options{})
	l.on.Facts.Links = append(l.on.Facts.Links, driver.Link{Name: "cni0", Index: 9, MTU: 1450, Up: true, Bridge: true,
		Addrs: []driver.LinkAddr{permanent("10.5.1.1/24")}})
	l.memory.Used = Uplink{Link: "cni0", IP: netip.MustParseAddr("10.5.1.1"), By: defaultFlag}
	l.choose(0, "eth0 192.168.1.1")
}

// The MTU is that of the way to the peers, and a default route that goes for a while does not change it.
func TestMTU(t *testing.T) {
	lo := driver.Link{Name: "lo", Index: 1, MTU: 65536, Up: true, Loopback: true,
		Addrs: []driver.LinkAddr{permanent("127.0.0.1/8"), permanent("10.0.0.1/32")}}
	dummy := driver.Link{Name: "dummy0", Index: 7, MTU: 1500, Up: true, Addrs: []driver.LinkAddr{permanent("10.0.0.2/32")}}
	narrow := func(r driver.Route, mtu int) driver.Route { r.MTU = mtu; return r }
	eth0, eth1 := via("eth0", "192.168.1.254"), via("eth1", "172.16.0.254")
	for _, c := range []struct {
		iface  string
		routes []driver.Route
		want   int
	}{
		{"eth0", []driver.Route{route("0.0.0.0/0", 0, eth0)}, 1500},
		{"eth0", []driver.Route{narrow(route("0.0.0.0/0", 0, eth0), 1400)}, 1400},
		{"eth0", []driver.Route{narrow(route("0.0.0.0/0", 0, eth1), 1400)}, 1500},
		{"eth1", []driver.Route{route("0.0.0.0/0", 0, eth0)}, 9000},
		{"eth1", nil, 9000},
		{"lo", []driver.Route{route("0.0.0.0/0", 0, eth1)}, 9000},
		{"lo", []driver.Route{narrow(route("0.0.0.0/0", 0, eth1), 8900)}, 8900},
		{"lo", []driver.Route{route("0.0.0.0/0", 0, eth1, eth0)}, 1500},
		{"lo", nil, 1500},
		{"dummy0", []driver.Route{route("0.0.0.0/0", 0, eth1)}, 1500},
		{"dummy0", []driver.Route{narrow(route("0.0.0.0/0", 0, eth1), 1300)}, 1300},
	} {
		l := newLife(t, Options{Ifaces: []string{c.iface}})
		l.on.Facts.Links = append(l.on.Facts.Links, lo, dummy)
		l.on.Facts.Routes = c.routes
		for range 2 {
			l.last = Choose(l.opts, l.network, l.on, l.memory, l.now)
			l.memory = l.last.Memory
			if l.last.Used.MTU != c.want || l.last.Trouble != nil {
				t.Errorf("%s with %v: MTU %d, %v; want %d", c.iface, c.routes, l.last.Used.MTU, l.last.Trouble, c.want)
			}
			l.on.Facts.Routes = nil
		}
	}
}

// Packets may leave by several hops, of which those of the overlay do not count. The one in use stays.
func TestSeveralHops(t *testing.T) {
	l := newLife(t, Options{})
	l.on.Own.Devices = []string{"flannel.1"}
	l.on.Facts.Links = append(l.on.Facts.Links, driver.Link{Name: "flannel.1", MTU: 1450})
	l.on.Facts.Routes = []driver.Route{route("0.0.0.0/0", 0, on("flannel.1"), via("eth1", "172.16.0.254"),
		via("eth0", "fd00::1"))}
	l.choose(0, "eth1 172.16.0.1")
	l.on.Facts.Routes[0].Hops[1], l.on.Facts.Routes[0].Hops[2] = l.on.Facts.Routes[0].Hops[2], l.on.Facts.Routes[0].Hops[1]
	l.choose(time.Hour, "eth1 172.16.0.1")
	l.memory = Memory{}
	l.choose(0, "eth0 192.168.1.1")
}

// Hosts may have addresses in the network beside the range of the subnets, as in upstream's example.
func TestHostsBesideTheSubnets(t *testing.T) {
	network := config.Network{V4: config.Range{Network: netip.MustParsePrefix("10.0.0.0/8"), SubnetLen: 20,
		Min: netip.MustParseAddr("10.10.0.0"), Max: netip.MustParseAddr("10.99.0.0")}}
	for addr, want := range map[string]string{
		"10.240.0.5/16": "eth0 10.240.0.5",
		"10.10.0.5/16": "no usable interface: --iface \"eth0\": interface eth0 has no usable IPv4 address: 10.10.0.5 is " +
			"inside the network 10.0.0.0/8",
	} {
		facts := driver.HostFacts{Links: []driver.Link{{Index: 2, Name: "eth0", MTU: 1500, Up: true,
			Addrs: []driver.LinkAddr{permanent(addr)}}}}
		u, err := Select(Options{Ifaces: []string{"eth0"}}, network, Host{Facts: facts})
		got := describe(u)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", addr, got, want)
		}
	}
}
