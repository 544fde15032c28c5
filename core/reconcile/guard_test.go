package reconcile

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/dataplane"
)

const (
	sealedLink = "link flannel.9 type wireguard mtu 1420 up port 51820\n"
	sealed     = sealedLink + "route 10.5.0.0/16 dev flannel.9 scope 253\nroute fd00:10::/48 dev flannel.9\n"
	plain      = "link flannel.9 type tun mtu 1472 up\nroute 10.5.0.0/16 dev flannel.9 metric 1\n"
)

var guardCases = []struct {
	name       string
	want, have string
	added      string
	beaten     string // each with the number of subnets
	held       string
	shared     string
}{
	{name: "no foreign route", want: sealed, have: sealed},
	{name: "foreign route to no peer's subnet", want: sealed,
		have: "route 10.5.9.0/24 via 192.168.64.9 dev eth0 proto 3"},
	{name: "pods' bridge and pods of this host", want: sealed,
		have: "route 10.5.1.0/24 dev cni0 scope 253 proto 2\nroute 10.5.1.7/32 dev veth1 scope 253 proto 3"},
	{name: "former route of our own", want: sealed, have: "route 10.5.3.0/24 via 192.168.64.4 dev eth0"},
	{name: "foreign route on our device", want: sealed, have: "route 10.5.3.0/24 dev flannel.9 proto 4"},
	{name: "another daemon's routes on our device", want: sealed, have: "route 10.7.3.0/24 via 10.7.3.0 dev flannel.9 " +
		"onlink\nroute 10.7.4.0/24 via 10.7.4.0 dev flannel.9 onlink proto 3\nroute 10.7.5.0/24 dev flannel.9 proto 3",
		shared: "10.7.3.0/24 10.7.4.0/24"},
	{name: "another daemon's address on our device", want: sealed, have: "addr 10.7.3.0/32 dev flannel.9\n" +
		"addr 10.7.4.1/24 dev flannel.9\naddr 10.5.7.0/32 dev flannel.9\naddr 10.7.5.0/32 dev eth0", shared: "10.7.3.0/32"},
	{name: "peer's subnet", want: sealed, have: "route 10.5.3.0/24 via 192.168.64.9 dev eth0 proto 3",
		added: "route 10.5.3.0/25 dev flannel.9 scope 253\nroute 10.5.3.128/25 dev flannel.9 scope 253\n",
		held:  "10.5.3.0/24 1"},
	{name: "peer's subnet with a metric", want: sealed,
		have:  "route 10.5.3.0/24 via 192.168.64.9 dev eth0 metric 9 proto 3",
		added: "route 10.5.3.0/24 dev flannel.9 scope 253\n", held: "10.5.3.0/24 1"},
	{name: "two peers' subnets", want: sealed, have: "route 10.5.2.0/23 dev eth0 proto 3",
		added: "route 10.5.2.0/24 dev flannel.9 scope 253\nroute 10.5.3.0/24 dev flannel.9 scope 253\n",
		held:  "10.5.2.0/23 2"},
	{name: "part of a peer's subnet, and a part of that", want: sealed,
		have: "route 10.5.3.0/25 dev eth0 proto 3\nroute 10.5.3.0/26 dev eth0 proto 3",
		added: "route 10.5.3.0/27 dev flannel.9 scope 253\nroute 10.5.3.32/27 dev flannel.9 scope 253\n" +
			"route 10.5.3.64/26 dev flannel.9 scope 253\n", held: "10.5.3.0/25 1, 10.5.3.0/26 1"},
	{name: "multipath", want: sealed, have: "route 10.5.3.0/24 proto 3 other multipath",
		added: "route 10.5.3.0/25 dev flannel.9 scope 253\nroute 10.5.3.128/25 dev flannel.9 scope 253\n",
		held:  "10.5.3.0/24 1"},
	{name: "single address", want: sealed, have: "route 10.5.3.7/32 via 192.168.64.9 dev eth0 proto 3",
		beaten: "clear 10.5.3.7/32 1"},
	{name: "address of this host", want: sealed, have: "route 10.5.3.0/24 dev eth1 scope 253 proto 2",
		beaten: "clear 10.5.3.0/24 1"},
	{name: "wide address of this host", want: sealed, have: "route 10.5.2.0/23 dev eth1 scope 253 proto 2",
		beaten: "clear 10.5.2.0/23 2"},
	{name: "foreign route within an address of this host", want: sealed,
		have:   "route 10.5.0.0/21 dev eth1 scope 253 proto 2\nroute 10.5.3.0/24 via 192.168.64.9 dev eth0 proto 3",
		beaten: "clear 10.5.0.0/21 2, clear 10.5.3.0/24 1"},
	{name: "address of this host that covers the network", want: sealed,
		have:  "route 10.0.0.0/8 dev eth1 scope 253 proto 2\nroute 10.5.2.0/23 dev eth0 proto 3",
		added: "route 10.5.2.0/24 dev flannel.9 scope 253\nroute 10.5.3.0/24 dev flannel.9 scope 253\n",
		held:  "10.5.2.0/23 2"},
	{name: "prefix that a router announces on a link", want: sealed,
		have:   "route fd00:10::/64 dev eth0 metric 512 proto 9",
		beaten: "clear fd00:10::/64 1"},
	{name: "foreign route within a prefix that a router announces", want: sealed,
		have: "route fd00:10::/52 dev eth0 metric 512 proto 9\n" +
			"route fd00:10::/64 via fd00:a::9 dev eth0 metric 512 proto 3",
		beaten: "clear fd00:10::/52 1, clear fd00:10::/64 1"},
	{name: "route that a router announces", want: sealed,
		have:  "route fd00:10::/64 via fd00:a::9 dev eth0 metric 512 proto 9",
		added: "route fd00:10:0:0:8000::/65 dev flannel.9\nroute fd00:10::/65 dev flannel.9\n", held: "fd00:10::/64 1"},
	{name: "pods of another network on this host", want: sealed,
		have: "route 10.5.2.0/24 dev inside scope 253 proto 2\nroute 10.5.3.0/25 dev inside scope 253 proto 3\n" +
			"route 10.5.3.200/32 dev inside scope 253 proto 3",
		beaten: "10.5.2.0/24 1, 10.5.3.0/25 1, 10.5.3.200/32 1"},
	{name: "gateway among the pods of this host", want: sealed,
		have: "route 10.5.3.7/32 via 10.77.0.9 dev inside proto 3", beaten: "clear 10.5.3.7/32 1"},
	{name: "encapsulated, on a link to pods of this host", want: sealed,
		have:  "route 10.5.3.0/24 dev inside scope 253 proto 3 other encapsulated",
		added: "route 10.5.3.0/25 dev flannel.9 scope 253\nroute 10.5.3.128/25 dev flannel.9 scope 253\n",
		held:  "10.5.3.0/24 1"},
	{name: "pods of this host within a foreign route", want: sealed,
		have:  "route 10.5.3.0/24 via 192.168.64.9 dev eth0 proto 3\nroute 10.5.3.0/25 dev inside scope 253 proto 3",
		added: "route 10.5.3.128/25 dev flannel.9 scope 253\n", beaten: "10.5.3.0/25 1", held: "10.5.3.0/24 1"},
	{name: "routes that drop packets", want: sealed,
		have:   "route 10.5.3.0/24 blackhole proto 3\nroute 10.5.2.0/24 proto 3 other prohibit",
		beaten: "10.5.2.0/24 1, 10.5.3.0/24 1"},
	{name: "IPv6 with a better metric", want: sealed, have: "route fd00:10::/48 via fd00:a::9 dev eth0 metric 512 proto 3",
		added: "route fd00:10::/64 dev flannel.9\n", held: "fd00:10::/48 1"},
	{name: "IPv6 with a worse metric", want: sealed,
		have: "route fd00:10::/48 via fd00:a::9 dev eth0 metric 2048 proto 3"},
	{name: "IPv6 subnet with a better metric", want: sealed,
		have:  "route fd00:10::/64 via fd00:a::9 dev eth0 metric 512 proto 3",
		added: "route fd00:10:0:0:8000::/65 dev flannel.9\nroute fd00:10::/65 dev flannel.9\n", held: "fd00:10::/64 1"},
	{name: "udp", want: plain, have: "route 10.5.3.0/24 via 192.168.64.9 dev eth0 proto 3", beaten: "10.5.3.0/24 1"},
	{name: "vxlan, in its place", want: self + peer, have: "route 10.5.3.0/24 via 192.168.64.9 dev eth0 proto 3"},
	{name: "vxlan, wider", want: self + peer, have: "route 10.5.2.0/23 via 192.168.64.9 dev eth0 proto 3"},
	{name: "vxlan, narrower", want: self + peer, have: "route 10.5.3.0/26 via 192.168.64.9 dev eth0 proto 3",
		beaten: "10.5.3.0/26 1"},
}

// The peers have 10.5.2.0/24, 10.5.3.0/24 and fd00:10::/64, and this host 10.5.1.0/24.
func TestGuard(t *testing.T) {
	subnets := []netip.Prefix{netip.MustParsePrefix("10.5.2.0/24"), netip.MustParsePrefix("10.5.3.0/24"),
		netip.MustParsePrefix("fd00:10::/64")}
	peers := func(dst netip.Prefix) []netip.Prefix {
		return slices.DeleteFunc(slices.Clone(subnets), func(s netip.Prefix) bool { return !s.Overlaps(dst) })
	}
	inside := func(link string) bool { return link == "inside" }
	for _, c := range guardCases {
		want := parse(t, c.want)
		before := want.Dump()
		got := Guard(want, parse(t, c.have), own(), peers, inside)
		if want.Dump() != before {
			t.Errorf("%s: Guard changed the wanted state", c.name)
		}
		added := strings.Builder{}
		for key, r := range got.State.Routes.All {
			if !want.Routes.Has(key) {
				added.WriteString(r.String() + "\n")
			}
		}
		if diff := cmp.Diff(sortedLines(c.added), sortedLines(added.String())); diff != "" {
			t.Errorf("%s: added routes (-want +got)\n%s", c.name, diff)
		}
		if beaten := bypassText(got.Beaten, true); beaten != c.beaten {
			t.Errorf("%s: beaten %q, want %q", c.name, beaten, c.beaten)
		}
		if held := bypassText(got.Held, false); held != c.held {
			t.Errorf("%s: held %q, want %q", c.name, held, c.held)
		}
		var shared []string
		for _, r := range got.Shared {
			shared = append(shared, r.Dst.String())
		}
		for _, a := range got.SharedAddrs {
			shared = append(shared, a.Prefix.String())
		}
		if text := strings.Join(shared, " "); text != c.shared {
			t.Errorf("%s: shared %q, want %q", c.name, text, c.shared)
		}
		// With the added routes in place, nothing changes: they are not foreign.
		have := parse(t, c.have)
		for _, r := range got.State.Routes.All {
			if !have.Routes.Has(r.Key()) {
				have.AddRoute(r)
			}
		}
		if again := Guard(want, have, own(), peers, inside); again.State.Dump() != got.State.Dump() {
			t.Errorf("%s: the second time\n%s", c.name, again.State.Dump())
		}
	}
}

func sortedLines(text string) []string {
	lines := slices.Collect(strings.Lines(text))
	slices.Sort(lines)
	return lines
}

func bypassText(all []Bypass, showClear bool) string {
	var texts []string
	for _, b := range all {
		text := ""
		if showClear && b.Clear {
			text = "clear "
		}
		texts = append(texts, text+b.Foreign.Dst.String()+" "+string(rune('0'+len(b.Subnets))))
	}
	return strings.Join(texts, ", ")
}

func TestBypassOnThisHostSaysSo(t *testing.T) {
	b := Bypass{Want: dataplane.Route{Link: "flannel-wg"}, Inside: true}
	for _, r := range parse(t, "route 10.5.3.7/32 dev cali1 scope 253 proto 3").Routes.All {
		b.Foreign = r
	}
	const want = "foreign route 10.5.3.7/32 dev cali1 scope 253 proto 3 keeps packets for the peer on this host; " +
		"remove it: ip route del 10.5.3.7/32 dev cali1"
	if got := b.Error(); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestBypassNamesTheCommand(t *testing.T) {
	for have, want := range map[string]string{
		"route 10.5.3.0/26 via 192.168.64.9 dev eth0 proto 3": "foreign route 10.5.3.0/26 via 192.168.64.9 dev eth0 " +
			"proto 3 leads packets past flannel.1; remove it: ip route del 10.5.3.0/26 via 192.168.64.9 dev eth0",
		"route 10.5.3.0/26 proto 3 other prohibit": "foreign route 10.5.3.0/26 proto 3 other prohibit drops packets; " +
			"remove it: ip route del prohibit 10.5.3.0/26",
		"route 10.5.3.0/26 via fd00:a::9 dev eth0 proto 3 other via-other-family": "foreign route 10.5.3.0/26 " +
			"via fd00:a::9 dev eth0 proto 3 other via-other-family leads packets past flannel.1; " +
			"remove it: ip route del 10.5.3.0/26 via inet6 fd00:a::9 dev eth0",
		"route fd00:10::/80 blackhole metric 7 proto 3": "foreign route fd00:10::/80 blackhole metric 7 proto 3 drops " +
			"packets; remove it: ip -6 route del blackhole fd00:10::/80 metric 7",
		"route fd00:10::/64 dev eth1 metric 256 proto 9": "foreign route fd00:10::/64 dev eth1 metric 256 proto 9 " +
			"leads packets past flannel.1; a router announces this prefix on eth1: change it there, or give the overlay " +
			"another network",
		"route 10.5.3.0/25 dev eth1 scope 253 proto 2": "foreign route 10.5.3.0/25 dev eth1 scope 253 proto 2 leads " +
			"packets past flannel.1; an address of this host on eth1 covers it: remove that address, or give the overlay " +
			"another network",
	} {
		b := Bypass{Want: dataplane.Route{Link: "flannel.1"}}
		for _, r := range parse(t, have).Routes.All {
			b.Foreign = r
		}
		if got := b.Error(); got != want {
			t.Errorf("%s\n got %s\nwant %s", have, got, want)
		}
	}
}
