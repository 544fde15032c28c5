package node

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

var comparePeers = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

// peer returns the description of the peer with a subnet.
func (w *world) peer(subnet string) Peer {
	w.t.Helper()
	for _, p := range w.n.Peers() {
		if p.Subnet == mustKey(subnet) {
			return p
		}
	}
	w.t.Fatalf("no peer %s among %+v", subnet, w.n.Peers())
	return Peer{}
}

func TestPeersOfAReadyNode(t *testing.T) {
	w := readyWorld(t)
	way := func(subnet string) []Way {
		p := netip.MustParsePrefix(subnet)
		return []Way{{Subnet: p, Type: "tunnel", Link: "flannel.1", Via: p.Addr()}}
	}
	want := []Peer{
		{Subnet: mustKey("10.5.3.0-24"), PublicIP: netip.MustParseAddr("192.168.64.4"), Backend: "vxlan",
			State: PeerServed, Ways: way("10.5.3.0/24")},
		{Subnet: mustKey("10.5.4.0-24"), PublicIP: netip.MustParseAddr("192.168.64.5"), Backend: "vxlan",
			State: PeerServed, Ways: way("10.5.4.0/24")},
	}
	if d := cmp.Diff(want, w.n.Peers(), comparePeers); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got, want := w.status().PeersBy, (PeerCounts{Served: 2}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

// TestPeerOfAnotherBackend has one peer of another backend, and one of the same.
func TestPeerOfAnotherBackend(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.put(lease.Lease{Key: mustKey("10.5.4.0-24"), ID: 1, Attrs: lease.Attrs{
		PublicIP: netip.MustParseAddr("192.168.64.5"), BackendType: "host-gw"}})
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	p := w.peer("10.5.4.0-24")
	if len(p.Problems) != 1 || p.State != PeerRefused || w.peer("10.5.3.0-24").State != PeerServed {
		t.Errorf("peers: %+v", w.n.Peers())
	}
	want := `its record is of backend "host-gw", and this node runs "vxlan"`
	if !strings.Contains(fmt.Sprint(p.Problems), want) {
		t.Errorf("problems %q, want %s", p.Problems, want)
	}
	s := w.status()
	if want := (PeerCounts{Served: 1, Refused: 1}); s.PeersBy != want || len(s.Problems) != 0 {
		t.Errorf("counts %+v, want %+v; problems %q", s.PeersBy, want, s.Problems)
	}
}

// Before the store has answered there are no peers, and before a subnet is held
// they are all pending.
func TestPeersAreAtFirstPending(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	if peers := w.n.Peers(); peers != nil {
		t.Errorf("before the store answers: %+v", peers)
	}
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.answer = func(Request) (lease.Grant, error) { return lease.Grant{}, errors.New("timeout") }
	w.tell()
	if p := w.peer("10.5.3.0-24"); p.State != PeerPending || p.Ways[0].Type != "none" {
		t.Errorf("%+v", p)
	}
	if got, want := w.status().PeersBy, (PeerCounts{Pending: 1}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

// A peer is pending while its route cannot be made, and refused if the fault is its
// own.
func TestPeerStates(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want PeerState
	}{
		"busy":    {driver.ErrBusy, PeerPending},
		"invalid": {driver.ErrInvalid, PeerRefused},
	} {
		t.Run(name, func(t *testing.T) {
			w := readyWorld(t)
			refuse := netip.MustParsePrefix("10.5.4.0/24")
			w.applyErr = func(op dataplane.Op) error {
				if r, ok := op.Object.(dataplane.Route); ok && r.Dst == refuse {
					return fmt.Errorf("%s: %w", op, c.err)
				}
				return nil
			}
			w.host.Routes.DeleteFunc(every)
			w.pass(time.Minute)
			if p := w.peer("10.5.4.0-24"); p.State != c.want || (len(p.Problems) > 0) != (c.want == PeerRefused) {
				t.Errorf("%+v", p)
			}
			if p := w.peer("10.5.3.0-24"); p.State != PeerServed || len(p.Problems) > 0 {
				t.Errorf("the other peer: %+v", p)
			}
			if got := w.status().PeersBy; got.Served != 1 || got.Pending+got.Refused != 1 {
				t.Errorf("counts %+v", got)
			}
		})
	}
}

// A peer on the node's own segment is reached directly if the backend says so.
func TestPeerReachedDirectly(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`)
	w.put(lease.Lease{Key: mustKey("10.5.3.0-24"), ID: 4, Attrs: lease.Attrs{
		PublicIP: netip.MustParseAddr("192.168.64.4"), BackendType: "host-gw"}})
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	want := Way{Subnet: netip.MustParsePrefix("10.5.3.0/24"), Type: "direct", Link: "eth0",
		Via: netip.MustParseAddr("192.168.64.4")}
	if got := w.peer("10.5.3.0-24").Ways[0]; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// During a change of the backend a peer that has not changed is reached by the
// previous backend.
func TestPeerReachedByAPreviousBackend(t *testing.T) {
	w := readyWorld(t)
	w.rev++
	w.snap.Revision = w.rev
	w.snap.Config = lease.Document{Data: []byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`), Revision: w.rev}
	w.tell()
	w.pass(time.Second)
	way := w.peer("10.5.3.0-24").Ways[0]
	if way.Type != "tunnel" || way.Former == "" {
		t.Errorf("%+v", way)
	}
	if got := w.status().PeersBy; got.Former != 2 {
		t.Errorf("counts %+v", got)
	}
}

// The way to a WireGuard peer has the time of its last handshake, also after the session has ended.
func TestLastHandshake(t *testing.T) {
	w := wireguardWorld(t)
	peer := vxlanPeer("10.5.91.0-24", 91)
	peer.Attrs.BackendType = "wireguard"
	peer.Attrs.BackendData = []byte(`{"PublicKey":"CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`)
	w.put(peer)
	w.tell()
	w.pass(time.Second)
	if way := w.peer("10.5.91.0-24").Ways[0]; way.Session != "none" || !way.Handshake.IsZero() {
		t.Errorf("before a handshake: %+v", way)
	}
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	have := w.n.host.have.Clone()
	for key := range have.WGPeers.All {
		have.Handshakes[key] = at
	}
	w.n.host.have = have
	if way := w.peer("10.5.91.0-24").Ways[0]; way.Session != "none" || !way.Handshake.Equal(at) {
		t.Errorf("%+v, want the handshake at %s", way, at)
	}
}

// The description of a peer tells its addresses, whether its subnet is reserved, and whether the
// datastore has lost its record. Peers come in the order of their addresses, not of their texts.
func TestPeersAfterAnAccident(t *testing.T) {
	w := newWorld(t, dualConfig)
	dual := func(key string, n byte) lease.Lease {
		l := vxlanPeer(key, n)
		l.Attrs.PublicIPv6 = netip.MustParseAddr(fmt.Sprintf("fd00:a::%x", n))
		l.Attrs.BackendV6Data = l.Attrs.BackendData
		return l
	}
	reserved := dual("10.5.10.0-24&fd00:10:0:10::-64", 4)
	reserved.ID = 0
	w.put(reserved)
	w.put(dual("10.5.3.0-24&fd00:10:0:3::-64", 5))
	w.put(dual("10.5.4.0-24&fd00:10:0:4::-64", 6))
	w.tell()
	w.pass(time.Second)
	w.wipe()
	w.put(reserved)
	w.tell()
	w.pass(time.Second)
	var got []string
	for _, p := range w.n.Peers() {
		got = append(got, fmt.Sprintf("%s %s reserved=%t lost=%t", p.Subnet.V4, p.PublicIP6, p.Reserved, p.Lost))
	}
	want := []string{
		"10.5.3.0/24 fd00:a::5 reserved=false lost=true",
		"10.5.4.0/24 fd00:a::6 reserved=false lost=true",
		"10.5.10.0/24 fd00:a::4 reserved=true lost=false",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if by := w.status().PeersBy; by.Lost != 2 || by.Served != 3 {
		t.Errorf("counts %+v", by)
	}
}

// The ways of backends without a route for each peer: udp knows subnets itself, and WireGuard keys.
func TestWaysWithoutARoute(t *testing.T) {
	w := newWorld(t, udpConfig)
	w.put(lease.Lease{Key: mustKey("10.5.3.0-24"), ID: 4,
		Attrs: lease.Attrs{PublicIP: netip.MustParseAddr("192.168.64.4")}})
	w.tell()
	w.pass(time.Second)
	want := Way{Subnet: netip.MustParsePrefix("10.5.3.0/24"), Type: "tunnel", Link: "flannel0"}
	if got := w.peer("10.5.3.0-24").Ways[0]; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	w, key := changingToWireGuard(t)
	w.host.Alive[key] = struct{}{}
	w.pass(time.Minute)
	if got := w.peer("10.5.3.0-24").Ways[0]; got.Type != "tunnel" || got.Link != "flannel-wg" || got.Session != "alive" {
		t.Errorf("%+v", got)
	}
}
