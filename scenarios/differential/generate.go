package differential

import (
	"fmt"
	"slices"
	"strings"
)

// Step is the ops of one Apply, one a line, if it begins with "apply "; otherwise
// it is an action.
type Step string

// MaxSteps bounds a run, even one from many bytes.
const MaxSteps = 60

// Generate draws a run. Equal bytes give equal runs. The run ends when the bytes are used up.
func Generate(data []byte) []Step {
	g := &generator{data: data}
	if g.n(2) == 1 {
		g.narrow, g.shift = 2+g.n(4), g.n(256)
	}
	for _, line := range []string{
		"add link eth0 type ethernet mtu 1500 mac 02:00:00:00:00:01 up",
		"add addr 192.168.64.3/24 dev eth0",
		"add addr fd00:a::3/64 dev eth0",
		"add link eth1 type ethernet mtu 1500 mac 02:00:00:00:00:02 up",
		"apply add link flannel.1 type vxlan mtu 1450 mac 02:00:00:00:00:44 up id 1 dev eth0 local 192.168.64.3 port 8472",
		"apply add link flannel-v6.1 type vxlan mtu 1430 mac 02:00:00:00:00:66 up id 1 dev eth0 local fd00:a::3 port 8472",
	} {
		if g.n(8) != 0 {
			g.steps = append(g.steps, Step(line))
		}
	}
	for len(g.data) > 0 && len(g.steps) < MaxSteps {
		if g.n(3) == 0 {
			g.steps = append(g.steps, Step(g.action()))
		} else {
			g.steps = append(g.steps, Step("apply "+g.ops()))
		}
	}
	return g.steps
}

// The universe of names and values. Likelier ones are listed more than once.
var (
	uplinks   = []string{"eth0", "eth1"}
	tunnels   = []string{"flannel.1", "flannel.1", "flannel-v6.1", "flannel.2"}
	names     = slices.Concat(uplinks, tunnels, []string{"gone0"})
	macs      = []string{"02:00:00:00:00:03", "02:00:00:00:00:04"}
	localMACs = []string{"02:00:00:00:00:44", "02:00:00:00:00:66"}
	mtus      = []string{"1500", "1450", "1430", "1400", "1280", "1200", "65500"}
	addrs     = []string{
		"192.168.64.3/24", "192.168.64.9/24", "10.5.1.0/32", "10.5.1.1/24", "10.5.3.1/24", "192.168.64.3/32",
		"169.254.7.7/16",
		"fd00:a::3/64", "fd00:a::9/64", "fd00:5:1::/128", "fd00:5:1::1/64", "fd00:5:3::1/64",
	}
	dsts = [2][]string{
		{"10.5.3.0/24", "10.5.3.0/24", "10.5.4.0/24", "10.5.1.0/24", "10.5.0.0/16", "192.168.64.0/24", "0.0.0.0/0",
			"10.5.3.0/32", "10.5.3.1/24"},
		{"fd00:5:3::/64", "fd00:5:3::/64", "fd00:5:4::/64", "fd00:5:1::/64", "fd00:5::/32", "fd00:a::/64", "::/0",
			"fd00:5:3::/128", "fd00:5:3::1/64"},
	}
	gateways = [2][]string{
		{"10.5.3.0", "10.5.4.0", "192.168.64.4", "192.168.64.5", "192.168.64.3", "10.5.1.1"},
		{"fd00:5:3::", "fd00:5:4::", "fd00:a::4", "fd00:a::5", "fd00:a::3", "fd00:5:1::1", "fe80::4"},
	}
	// neighIPs are neither gateways nor remotes: with an FDB entry for all
	// frames the kernel sends packets of its own, and resolves those itself.
	neighIPs = []string{"10.5.3.7", "192.168.64.7", "fd00:5:3::7", "fd00:a::7"}
	remotes  = []string{"192.168.64.8", "192.168.64.9", "fd00:a::8", "fd00:a::9"}
	// hopIDs are the numbers of next hops, written as addresses.
	hopIDs   = []string{"10.5.3.0", "10.5.4.0", "10.5.1.0", "0.0.0.1"}
	settings = []string{
		"net/ipv4/ip_forward", "net/ipv4/conf/all/rp_filter",
		"net/ipv6/conf/all/forwarding", "net/ipv6/conf/all/keep_addr_on_down",
	}
	linkSettings = []string{
		"net/ipv4/conf/%s/forwarding", "net/ipv4/conf/%s/rp_filter", "net/ipv6/conf/%s/accept_ra",
		"net/ipv6/conf/%s/disable_ipv6", "net/ipv6/conf/%s/forwarding", "net/ipv6/conf/%s/keep_addr_on_down",
	}
)

// generator draws steps from bytes.
type generator struct {
	data  []byte
	steps []Step
	past  []string // the objects of former steps
	hops  []string // the next hops among them, without the word "nexthop"
	// Half of the runs draw only from a part of all words, each from another part:
	// with fewer objects, more steps meet earlier ones.
	narrow, shift int
}

// n draws a number below k, which is at most 256. Without bytes it is 0.
func (g *generator) n(k int) int {
	if len(g.data) == 0 {
		return 0
	}
	b := g.data[0]
	g.data = g.data[1:]
	return int(b) % k
}

// one draws one of the words.
func (g *generator) one(words ...string) string {
	i := g.n(len(words))
	if g.narrow > 0 {
		i = (i%g.narrow + g.shift) % len(words)
	}
	return words[i]
}

// maybe returns the text in one case of k.
func (g *generator) maybe(k int, text string) string {
	if g.n(k) == k-1 {
		return text
	}
	return ""
}

// object draws a new object, or one of a former step.
func (g *generator) object(again bool, kinds ...func() string) string {
	if again && len(g.past) > 0 && g.n(4) > 0 {
		return g.past[g.n(len(g.past))]
	}
	o := kinds[g.n(len(kinds))]()
	g.past = append(g.past, o)
	return o
}

// ops draws one op, or a few, since the driver writes several at once.
func (g *generator) ops() string {
	text := g.op()
	for range [...]int{0, 0, 0, 0, 0, 1, 2, 4}[g.n(8)] {
		text += "\n" + g.op()
	}
	return text
}

func (g *generator) op() string {
	verb := g.one("add", "add", "replace", "replace", "del")
	return verb + " " + g.object(verb == "del", g.tunnel, g.addr, g.addr, g.route, g.route, g.route, g.neigh, g.fdb,
		g.sysctl, g.nextHop, g.routeOver, g.routeOver)
}

func (g *generator) action() string {
	switch verb := g.one("up", "down", "up", "down", "carrier-on", "carrier-off", "mtu", "mac",
		"flush-addrs", "flush-routes", "flush-neighs", "flush-fdb", "divert-fdb",
		"add", "add", "add", "del", "del", "learn", "append", "add-blackhole"); verb {
	case "carrier-on", "carrier-off":
		return verb + " " + g.one(uplinks...)
	case "mtu":
		return verb + " " + g.one(names...) + " " + g.one(slices.Concat(mtus, []string{"60", "68"})...)
	case "mac":
		return verb + " " + g.one(names...) + " " + g.one(localMACs...)
	case "add":
		return verb + " " + g.object(false, g.uplink, g.addr, g.addr, g.foreignRoute, g.foreignRoute, g.neigh, g.fdb,
			g.nextHop)
	case "del":
		return verb + " " + g.object(false, g.uplink, g.bareTunnel, g.addr, g.addr, g.neigh, g.fdb, g.nextHop)
	case "learn":
		return verb + " " + g.object(false, g.neigh, g.fdb)
	case "append":
		return verb + " " + g.object(false, g.foreignRoute)
	case "add-blackhole":
		return verb + " route " + g.one(dsts[g.n(2)]...) + g.metric() + " proto 3"
	default:
		return verb + " " + g.one(names...)
	}
}

func (g *generator) uplink() string {
	return "link " + g.one(uplinks...) + " type ethernet mtu " + g.one(mtus...) + " mac 02:00:00:00:00:0" +
		g.one("1", "2") + g.maybe(2, " up")
}

func (g *generator) bareTunnel() string {
	return "link " + g.one(tunnels...) + " type vxlan mtu 0 id 1 port 8472"
}

func (g *generator) tunnel() string {
	var b strings.Builder
	name := g.one(tunnels...)
	if g.n(32) == 31 {
		return "link " + g.one(uplinks...) + " type veth mtu " + g.one(mtus...) + g.maybe(2, " up")
	}
	fmt.Fprintf(&b, "link %s type vxlan mtu %s", name, g.one(slices.Concat(mtus, []string{"0", "60"})...))
	b.WriteString(g.maybe(2, " mac "+g.one(localMACs...)))
	b.WriteString(g.one(" up", " up", " up", ""))
	b.WriteString(" id " + g.one("1", "1", "1", "2"))
	b.WriteString(g.one(" dev eth0", " dev eth0", " dev eth0", " dev eth1", ""))
	b.WriteString(g.one(" local 192.168.64.3", " local 192.168.64.3", " local 192.168.64.9", " local fd00:a::3", ""))
	b.WriteString(" port " + g.one("8472", "8472", "8472", "4789"))
	b.WriteString(g.maybe(8, " learning") + g.maybe(8, " gbp"))
	return b.String()
}

func (g *generator) addr() string { return "addr " + g.one(addrs...) + " dev " + g.one(names...) }

func (g *generator) metric() string { return g.one("", "", "", "", " metric 7", " metric 256") }

// anyRoute draws a route without its protocol.
func (g *generator) anyRoute() string {
	f := g.n(2)
	var b strings.Builder
	b.WriteString("route " + g.one(dsts[f]...))
	via := g.n(4) > 0
	if via {
		if g.n(16) == 15 { // the other family's
			f = 1 - f
		}
		b.WriteString(" via " + g.one(gateways[f]...))
	}
	if !via || g.n(8) > 0 {
		b.WriteString(" dev " + g.one(names...))
	}
	if via {
		b.WriteString(g.maybe(2, " onlink"))
	}
	b.WriteString(g.maybe(8, " scope 253") + g.metric())
	return b.String()
}

func (g *generator) route() string {
	if g.n(8) == 0 {
		return "route " + g.one(dsts[g.n(2)]...) + " blackhole" + g.metric()
	}
	return g.anyRoute() + g.maybe(8, " proto 3")
}

func (g *generator) foreignRoute() string {
	return g.anyRoute() + " proto " + g.one("3", "4", "2", "102")
}

// nextHop draws an object over which routes lead. Half of the gateways are the host's neighbours.
func (g *generator) nextHop() string {
	gateway := g.one(gateways[0]...)
	if g.n(32) == 31 {
		gateway = g.one(gateways[1]...)
	}
	hop := g.one(hopIDs...) + " via " + gateway + " dev " + g.one(names...) + g.maybe(2, " onlink")
	g.hops = append(g.hops, hop)
	return "nexthop " + hop
}

// routeOver draws a route that uses a next hop, mostly one of a former step.
func (g *generator) routeOver() string {
	hop := g.one(hopIDs...) + " dev " + g.one(names...)
	if len(g.hops) > 0 && g.n(8) > 0 {
		hop = g.hops[g.n(len(g.hops))]
	}
	f := 0
	if g.n(32) == 31 {
		f = 1
	}
	return "route " + g.one(dsts[f]...) + " nhid " + hop + g.maybe(8, " scope 253") + g.metric() + g.maybe(8, " proto 3")
}

func (g *generator) neigh() string {
	return "neigh " + g.one(neighIPs...) + " lladdr " + g.one(macs...) + " dev " + g.one(names...)
}

func (g *generator) fdb() string {
	return "fdb " + g.one(slices.Concat(macs, []string{"00:00:00:00:00:00"})...) + " dst " + g.one(remotes...) +
		" dev " + g.one(tunnels...)
}

func (g *generator) sysctl() string {
	value := g.one("0", "1", "1", "2")
	if g.n(4) == 0 {
		return "sysctl " + g.one(settings...) + " = " + value
	}
	return "sysctl " + fmt.Sprintf(g.one(linkSettings...), g.one(names...)) + " = " + value
}
