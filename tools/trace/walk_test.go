package trace

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/output/outputtest"
)

// fakeKernel is the host n1 at 192.168.64.1 with the subnet 10.5.1.0/24. Its peer n2 at
// 192.168.64.2 has 10.5.2.0/24.
type fakeKernel struct {
	view View
	// Routes by destination, "IN destination" of a packet that comes by a device, or
	// "destination protocol/port" with the protocol's number.
	routes map[string]Route
	errs   map[string]error
	neighs map[netip.Addr]Neighbour
}

func (k *fakeKernel) View(context.Context, []netip.Prefix) (*View, error) { return &k.view, nil }

func (k *fakeKernel) Route(q Question) (Route, error) {
	byPort := fmt.Sprintf("%s %d/%d", q.Dst, q.Protocol, q.Port)
	for _, key := range []string{byPort, q.In + " " + q.Dst.String(), q.Dst.String()} {
		if err := k.errs[key]; err != nil {
			return Route{}, err
		}
		if r, ok := k.routes[key]; ok {
			return r, nil
		}
	}
	return Route{}, ErrNoRoute
}

func (k *fakeKernel) Neighbour(_ string, ip netip.Addr) (Neighbour, error) { return k.neighs[ip], nil }

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// healthy returns a host with vxlan on which all is well.
func healthy(t *testing.T) *fakeKernel {
	t.Helper()
	state, err := dataplane.ParseDump(
		"link flannel.1 type vxlan mtu 1450 mac 02:00:00:00:00:01 up id 1 dev eth0 local 192.168.64.1 port 8472\n" +
			"neigh 10.5.2.0 lladdr 02:00:00:00:00:02 dev flannel.1\n" +
			"fdb 02:00:00:00:00:02 dst 192.168.64.2 dev flannel.1\n")
	if err != nil {
		t.Fatal(err)
	}
	k := &fakeKernel{
		view: View{State: state, Chains: dataplane.NewState()},
		routes: map[string]Route{
			"10.5.1.7":     {Link: "cni0"},
			"10.5.1.8":     {Link: "cni0"},
			"10.5.1.0":     {Local: true},
			"10.5.2.7":     {Link: "flannel.1", Via: addr("10.5.2.0")},
			"192.168.64.1": {Local: true},
			"192.168.64.2": {Link: "eth0"},
			"1.1.1.1":      {Link: "eth0", Via: addr("192.168.64.254")},
		},
		errs:   map[string]error{},
		neighs: map[netip.Addr]Neighbour{addr("192.168.64.2"): {Exists: true}},
	}
	for name, prefix := range map[string]string{
		"eth0": "192.168.64.1/24", "cni0": "10.5.1.1/24", "flannel.1": "10.5.1.0/32",
	} {
		mtu := 1450
		if name == "eth0" {
			mtu = 1500
		}
		k.view.Host.Links = append(k.view.Host.Links, driver.Link{Name: name, MTU: mtu, Up: true,
			Addrs: []driver.LinkAddr{{Prefix: netip.MustParsePrefix(prefix)}}})
	}
	return k
}

// change changes a device.
func (k *fakeKernel) change(name string, do func(*driver.Link)) {
	for i := range k.view.Host.Links {
		if l := &k.view.Host.Links[i]; l.Name == name {
			do(l)
		}
	}
}

var known = Known{
	Networks: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16")},
	Peers: []node.Peer{{
		Subnet: lease.Key{V4: netip.MustParsePrefix("10.5.2.0/24")}, PublicIP: netip.MustParseAddr("192.168.64.2"),
		State: node.PeerServed,
	}},
}

func trace(t *testing.T, k Kernel, src, dst string, size int) *Result {
	t.Helper()
	r, err := Walk(t.Context(), k, Flow{Src: addr(src), Dst: addr(dst), Size: size}, known)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func text(t *testing.T, r *Result) string { return outputtest.Print(t, output.Printer{}, r) }

// A packet between two pods goes step by step.
func TestWayOfAPacket(t *testing.T) {
	for _, c := range []struct{ name, src, dst, want string }{
		{"to a pod of a peer", "10.5.1.7", "10.5.2.7", `
1  arrive     it comes in by cni0, the source's device
2  forward    the host forwards IPv4 packets, and no filter that flannel knows of drops them
3  route      10.5.2.7 goes via 10.5.2.0, device flannel.1
4  device     flannel.1 is up and takes 1450 bytes
5  neighbour  10.5.2.0 is 02:00:00:00:00:02
6  tunnel     becomes 134 bytes to 192.168.64.2 (vxlan, VNI 1, UDP port 8472)
7  underlay   192.168.64.2 goes by eth0
8  leave      by eth0 to the host 192.168.64.2
goes on at 192.168.64.2; trace it there:
flannelctl trace 10.5.1.7 10.5.2.7 --size 84
`},
		{"from a pod of a peer", "10.5.2.7", "10.5.1.7", `
1  arrive   it comes in by flannel.1, the device towards its node, 192.168.64.2
2  forward  the host forwards IPv4 packets, and no filter that flannel knows of drops them
3  route    10.5.1.7 is on the link of device cni0
4  device   cni0 is up and takes 1450 bytes
5  leave    to the pod 10.5.1.7 on cni0, which the kernel will ask for
arrives
`},
		{"to the outside", "10.5.1.7", "1.1.1.1", `
1  arrive   it comes in by cni0, the source's device
2  forward  the host forwards IPv4 packets, and no filter that flannel knows of drops them
3  route    1.1.1.1 goes via 192.168.64.254, device eth0
4  device   eth0 is up and takes 1500 bytes
5  source   no rule of flannel changes its source 10.5.1.7, so answers may not find it; see flanneld --ip-masq
6  leave    by eth0 to 192.168.64.254, which the kernel will ask for
leaves this host
`},
		{"to the host itself", "10.5.2.7", "192.168.64.1", `
1  arrive  it comes in by flannel.1, the device towards its node, 192.168.64.2
2  route   192.168.64.1 is an address of this host
arrives
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := trace(t, healthy(t), c.src, c.dst, 84)
			if d := cmp.Diff(c.want, "\n"+text(t, r)); d != "" || r.Trouble() {
				t.Errorf("trouble %t (-want +got):\n%s", r.Trouble(), d)
			}
		})
	}
}

// While the bridge of the pods is down, the kernel takes its subnet to the outside.
func TestBridgeIsDown(t *testing.T) {
	k := healthy(t)
	k.change("cni0", func(l *driver.Link) { l.Up = false })
	k.routes["10.5.1.7"] = Route{Link: "eth0", Via: addr("192.168.64.254")}
	for _, c := range []struct{ src, dst, step string }{
		{"10.5.1.7", "10.5.2.7", "arrive"},
		{"10.5.2.7", "10.5.1.7", "route"},
	} {
		r := trace(t, k, c.src, c.dst, 84)
		if r.Reason != "link_down" || r.Hops[len(r.Hops)-1].Step != c.step {
			t.Errorf("%s to %s:\n%s", c.src, c.dst, text(t, r))
		}
	}
}

// A device that is down and has a prefix with the pods of peers does not concern these.
func TestForeignDeviceIsDown(t *testing.T) {
	k := healthy(t)
	k.view.Host.Links = append(k.view.Host.Links, driver.Link{
		Name: "br0", Addrs: []driver.LinkAddr{{Prefix: netip.MustParsePrefix("10.5.0.1/16")}},
	})
	for _, c := range [][2]string{{"10.5.1.7", "10.5.2.7"}, {"10.5.2.7", "10.5.1.7"}, {"10.5.1.0", "10.5.2.7"}} {
		if r := trace(t, k, c[0], c[1], 84); r.Trouble() {
			t.Errorf("%s to %s:\n%s", c[0], c[1], text(t, r))
		}
	}
}

// Each thing that stops a packet is named by the simulator's word, at its step.
func TestWhereAPacketEnds(t *testing.T) {
	for _, c := range []struct {
		reason, step string
		size         int
		harm         func(k *fakeKernel)
	}{
		{"no_forwarding", "forward", 84, func(k *fakeKernel) {
			k.change("cni0", func(l *driver.Link) { l.NoForwarding[cidr.V4] = true })
		}},
		{"fw_drop", "forward", 84, func(k *fakeKernel) {
			k.view.Firewall.Blocks = []driver.ForwardBlock{{By: "policy DROP", OverriddenBy: dataplane.IPTables}}
		}},
		{"no_route", "route", 84, func(k *fakeKernel) { delete(k.routes, "10.5.2.7") }},
		{"no_route", "route", 84, func(k *fakeKernel) {
			k.routes["10.5.2.7"] = Route{Link: "eth0", Via: addr("192.168.64.254")}
		}},
		{"blackhole", "route", 84, func(k *fakeKernel) { k.errs["10.5.2.7"] = ErrBlackhole }},
		{"rp_filter", "route", 84, func(k *fakeKernel) { k.errs["cni0 10.5.2.7"] = ErrSource }},
		{"link_down", "device", 84, func(k *fakeKernel) {
			k.change("flannel.1", func(l *driver.Link) { l.Up = false })
		}},
		{"too_big", "device", 1451, func(*fakeKernel) {}},
		{"neigh_missing", "neighbour", 84, func(k *fakeKernel) {
			k.view.State.Neighs = dataplane.Table[dataplane.NeighKey, dataplane.Neigh]{}
		}},
		{"fdb_missing", "tunnel", 84, func(k *fakeKernel) {
			k.view.State.FDB = dataplane.Table[dataplane.FDBKey, dataplane.FDBEntry]{}
		}},
		{"fdb_missing", "tunnel", 84, func(k *fakeKernel) {
			for _, e := range k.view.State.Clone().FDB.All {
				e.Dst = netip.IPv4Unspecified()
				k.view.State.FDB.Put(e)
			}
		}},
		{"bad_source", "tunnel", 84, func(k *fakeKernel) { k.routes["192.168.64.1"] = Route{Link: "eth0"} }},
		{"no_route", "underlay", 84, func(k *fakeKernel) { delete(k.routes, "192.168.64.2") }},
		{"loop", "underlay", 84, func(k *fakeKernel) { k.routes["192.168.64.2"] = Route{Local: true} }},
		{"link_down", "underlay", 84, func(k *fakeKernel) {
			k.change("eth0", func(l *driver.Link) { l.Up = false })
		}},
		{"neigh_failed", "underlay", 84, func(k *fakeKernel) {
			k.neighs[addr("192.168.64.2")] = Neighbour{Exists: true, Failed: true}
		}},
		{"xfrm_blocked", "policy", 84, func(k *fakeKernel) {
			network := netip.MustParsePrefix("10.5.0.0/16")
			k.view.State.AddPolicy(dataplane.Policy{
				PolicyKey: dataplane.PolicyKey{Dir: dataplane.PolicyOut, Src: network, Dst: network},
				Action:    dataplane.Block, Priority: dataplane.PriorityBlock,
			})
		}},
	} {
		t.Run(c.reason+" at "+c.step, func(t *testing.T) {
			k := healthy(t)
			c.harm(k)
			r := trace(t, k, "10.5.1.7", "10.5.2.7", c.size)
			last := r.Hops[len(r.Hops)-1]
			if r.Reason != c.reason || last.Step != c.step || r.Remedy == "" || !r.Trouble() {
				t.Errorf("%s", text(t, r))
			}
		})
	}
}

// tunnelled returns the healthy host with WireGuard in the place of vxlan. The peer is alive.
func tunnelled(t *testing.T) *fakeKernel {
	t.Helper()
	k := healthy(t)
	k.view.State = dataplane.NewState()
	k.view.State.AddLink(dataplane.Link{Name: "flannel-wg", MTU: 1420, Up: true,
		Params: dataplane.WireGuard{ListenPort: 51820}})
	peer := dataplane.WGPeer{WGPeerKey: dataplane.WGPeerKey{Link: "flannel-wg", Public: dataplane.PublicKey{2}},
		Endpoint: netip.MustParseAddrPort("192.168.64.2:51820")}
	peer.Allowed[cidr.V4] = netip.MustParsePrefix("10.5.2.0/24")
	k.view.State.AddWGPeer(peer)
	k.view.State.Alive[peer.WGPeerKey] = struct{}{}
	k.view.Host.Links = append(k.view.Host.Links, driver.Link{Name: "flannel-wg", MTU: 1420, Up: true})
	k.routes["10.5.2.7"] = Route{Link: "flannel-wg"}
	return k
}

// Each thing that stops a packet in WireGuard is named. A peer without a session stops none: the packet asks for one.
func TestWireGuard(t *testing.T) {
	lacks := func(k *fakeKernel, change func(*dataplane.WGPeer)) {
		var peers []dataplane.WGPeer
		for _, p := range k.view.State.WGPeers.All {
			change(&p)
			peers = append(peers, p)
		}
		k.view.State.WGPeers = dataplane.Table[dataplane.WGPeerKey, dataplane.WGPeer]{}
		for _, p := range peers {
			k.view.State.AddWGPeer(p)
		}
	}
	for _, c := range []struct {
		name, reason, step, says string
		size                     int
		harm                     func(k *fakeKernel)
	}{
		{"well", "", "leave", "becomes 144 bytes to 192.168.64.2 (WireGuard, UDP port 51820)", 84, func(*fakeKernel) {}},
		{"no peer", "wg_no_peer", "tunnel", "flannel-wg has no peer for 10.5.2.7", 84, func(k *fakeKernel) {
			lacks(k, func(p *dataplane.WGPeer) { p.Allowed[cidr.V4] = netip.MustParsePrefix("10.5.3.0/24") })
		}},
		{"no endpoint", "wg_no_endpoint", "tunnel", "does not know where its peer", 84, func(k *fakeKernel) {
			lacks(k, func(p *dataplane.WGPeer) { p.Endpoint = netip.AddrPort{} })
		}},
		{"no session", "", "leave", "no handshake with 192.168.64.2 in the last three minutes", 84, func(k *fakeKernel) {
			clear(k.view.State.Alive)
		}},
		{"too big", "too_big", "device", "1421 bytes do not fit into flannel-wg, which takes 1420", 1421,
			func(*fakeKernel) {}},
		{"no way to the endpoint", "no_route", "underlay", "the kernel has no way to the host 192.168.64.2", 84,
			func(k *fakeKernel) { delete(k.routes, "192.168.64.2") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := tunnelled(t)
			c.harm(k)
			r := trace(t, k, "10.5.1.7", "10.5.2.7", c.size)
			last := r.Hops[len(r.Hops)-1]
			ended := r.Reason == c.reason && last.Step == c.step && (r.Reason == "" || r.Remedy != "")
			if !ended || !strings.Contains(text(t, r), c.says) {
				t.Errorf("want %q at %s, and %q:\n%s", c.reason, c.step, c.says, text(t, r))
			}
		})
	}
}

// Without its datastore, a daemon may keep routes to peers that it does not know. Their marks
// show that they are flannel's, unless the packet takes another route.
func TestRouteOfAnUnknownPeer(t *testing.T) {
	for _, c := range []struct {
		protocol uint8
		via      string // of the route that the kernel chooses
		reason   string
	}{
		{dataplane.Protocol, "192.168.64.9", ""},
		{dataplane.ProtocolBoot, "192.168.64.9", "no_route"},
		{dataplane.Protocol, "192.168.64.254", "no_route"},
	} {
		k := healthy(t)
		k.view.State.Routes = dataplane.Table[dataplane.RouteKey, dataplane.Route]{}
		k.view.State.AddRoute(dataplane.Route{RouteKey: dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.2.0/24")},
			Link: "eth0", Via: addr("192.168.64.9"), Protocol: c.protocol})
		k.routes["10.5.2.7"] = Route{Link: "eth0", Via: addr(c.via)}
		k.neighs[addr(c.via)] = Neighbour{Exists: true}
		if r := trace(t, k, "10.5.1.7", "10.5.2.7", 84); r.Reason != c.reason {
			t.Errorf("protocol %d by %s: %s", c.protocol, c.via, text(t, r))
		}
	}
}

// A block that a chain of flannel overrules stops nothing.
func TestOverruledBlock(t *testing.T) {
	k := healthy(t)
	k.view.Firewall.Blocks = []driver.ForwardBlock{{By: "policy DROP", OverriddenBy: dataplane.IPTables}}
	key := dataplane.ChainKey{Flavour: dataplane.IPTables, Family: cidr.V4, Hook: dataplane.Forward}
	k.view.Chains.AddChain(dataplane.Chain{ChainKey: key, Jump: dataplane.Placed})
	if r := trace(t, k, "10.5.1.7", "10.5.2.7", 84); r.Trouble() {
		t.Errorf("%s", text(t, r))
	}
}

// A rule may forbid the host itself to send to a pod whose packets it forwards.
func TestSourceThatTheHostCannotReach(t *testing.T) {
	k := healthy(t)
	k.errs["10.5.1.7"] = ErrBlackhole
	r := trace(t, k, "10.5.1.7", "10.5.2.7", 84)
	if r.Trouble() || r.Hops[0].Text != "it comes in by cni0, the source's device" {
		t.Errorf("%s", text(t, r))
	}
}

// A foreign route that is narrower than flannel's is named, with the command that deletes it.
func TestForeignRouteComesFirst(t *testing.T) {
	k := healthy(t)
	gateway := addr("192.168.64.254")
	k.routes["10.5.2.7"] = Route{Link: "eth0", Via: gateway}
	k.view.State.AddRoute(dataplane.Route{
		RouteKey: dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.2.0/25")},
		Via:      gateway, Link: "eth0", Protocol: dataplane.ProtocolBoot,
	})
	r := trace(t, k, "10.5.1.7", "10.5.2.7", 84)
	const want = "another program's route 10.5.2.0/25 via 192.168.64.254 dev eth0 proto 3 leads it past flannel, " +
		"to 192.168.64.254 by eth0"
	last := r.Hops[len(r.Hops)-1]
	if r.Reason != "no_route" || last.Text != want || r.Remedy != "ip route del 10.5.2.0/25 via 192.168.64.254 dev eth0" {
		t.Errorf("%s", text(t, r))
	}
}

// The remedy for a foreign rule or route before flannel's is not to wait for flanneld.
func TestForeignRuleComesFirst(t *testing.T) {
	for _, stands := range []bool{false, true} {
		k := healthy(t)
		k.errs["10.5.2.7"] = ErrBlackhole
		if stands {
			k.view.State.AddRoute(dataplane.Route{
				RouteKey: dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.2.0/24")}, Link: "flannel.1", Via: addr("10.5.2.0"),
			})
		}
		r := trace(t, k, "10.5.1.7", "10.5.2.7", 84)
		if foreign := strings.Contains(r.Remedy, "ip rule"); foreign != stands || !r.Trouble() {
			t.Errorf("flannel's route stands: %t\n%s", stands, text(t, r))
		}
	}
}

// A rule may lead the packets of one port elsewhere, and those of the tunnel.
func TestRuleByPort(t *testing.T) {
	for key, want := range map[string]string{"10.5.2.7 6/80": "link_down", "192.168.64.2 17/8472": "link_down"} {
		for port, reason := range map[uint16]string{80: want, 81: ""} {
			k := healthy(t)
			k.routes[key] = Route{Link: "eth7", Via: addr("192.168.64.77")}
			r, err := Walk(t.Context(), k, Flow{Src: addr("10.5.1.7"), Dst: addr("10.5.2.7"), Size: 84, Proto: "tcp",
				Port: port}, known)
			if err != nil {
				t.Fatal(err)
			}
			if key == "192.168.64.2 17/8472" {
				reason = want // whatever the pod's port
			}
			if r.Reason != reason {
				t.Errorf("%s: %q, want %q:\n%s", key, r.Reason, reason, text(t, r))
			}
		}
	}
}

// A packet that leaves for a node against which the probes of this host speak shows what they say.
func TestProbesContradictTheWalk(t *testing.T) {
	for finding, want := range map[probe.Finding]string{
		probe.Unreachable: "but the probes of this host say: 192.168.64.2 does not answer at 10.5.2.0, and its uplink " +
			"does: a firewall between the hosts may block the port or protocol of the backend, or its route back is wrong\n",
		probe.Well: "", probe.Unknown: "",
	} {
		peer := known.Peers[0]
		peer.Ways = []node.Way{{Subnet: peer.Subnet.V4,
			Probe: &probe.Result{Finding: finding, Address: peer.Subnet.V4.Addr(), UplinkAnswers: true}}}
		r, err := Walk(t.Context(), healthy(t), Flow{Src: addr("10.5.1.7"), Dst: addr("10.5.2.7"), Size: 84},
			Known{Networks: known.Networks, Peers: []node.Peer{peer}})
		if err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(text(t, r), "--size 84\n")
		if got != want || (r.Probe != nil) != (want != "") || r.Trouble() {
			t.Errorf("%s: %q, want %q", finding, got, want)
		}
	}
}

// Only the daemon knows the table by which it carries packets itself. A note says that a peer
// may be missing there.
func TestPendingPeerOfADaemon(t *testing.T) {
	for _, state := range []node.PeerState{node.PeerServed, node.PeerPending} {
		k := healthy(t)
		k.view.State.AddLink(dataplane.Link{Name: "flannel0", MTU: 1472, Up: true, Params: dataplane.TUN{}})
		k.view.Host.Links = append(k.view.Host.Links, driver.Link{Name: "flannel0", MTU: 1472, Up: true})
		k.routes["10.5.2.7"] = Route{Link: "flannel0"}
		peer := known.Peers[0]
		peer.State = state
		r, err := Walk(t.Context(), k, Flow{Src: addr("10.5.1.7"), Dst: addr("10.5.2.7"), Size: 84},
			Known{Networks: known.Networks, Peers: []node.Peer{peer}})
		if err != nil {
			t.Fatal(err)
		}
		pending := state == node.PeerPending
		notes := strings.Contains(text(t, r), "does not serve 192.168.64.2 in full yet")
		if r.Trouble() || r.Next != peer.PublicIP || r.Pending != pending || notes != pending {
			t.Errorf("%s: pending %t, next %s:\n%s", state, r.Pending, r.Next, text(t, r))
		}
	}
}

// Of two records that claim the destination, the one whose node is served leads to it.
func TestTwoRecordsOfOneSubnet(t *testing.T) {
	refused := known.Peers[0]
	refused.PublicIP, refused.State = addr("172.31.9.9"), node.PeerRefused
	for _, peers := range [][]node.Peer{{refused, known.Peers[0]}, {known.Peers[0], refused}} {
		w := walk{known: Known{Networks: known.Networks, Peers: peers}}
		if p, _ := w.peerOf(addr("10.5.2.7")); p.PublicIP != known.Peers[0].PublicIP {
			t.Errorf("the destination is on %s, want the served peer", p.PublicIP)
		}
	}
	w := walk{known: Known{Peers: []node.Peer{refused}}}
	if p, found := w.peerOf(addr("10.5.2.7")); !found || p.PublicIP != refused.PublicIP {
		t.Errorf("one record, refused: the destination is on %s, %t", p.PublicIP, found)
	}
}
