package backends

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// changing returns the set of a node that changes from vxlan to wireguard.
func changing(t *testing.T) *Set {
	t.Helper()
	network, err := config.Parse([]byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"wireguard"}}`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(network, config.Backend{Type: "vxlan", Options: json.RawMessage(`{"Type":"vxlan"}`)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// changed returns the record of a peer that offers wireguard, and vxlan as the previous backend.
func changed(host byte, key dataplane.PublicKey) *lease.Lease {
	previous := lease.FormerWay{
		Backend: json.RawMessage(`{"Type":"vxlan"}`),
		Data:    fmt.Appendf(nil, `{"VNI":1,"VtepMAC":"02:00:00:00:00:%02x"}`, host),
	}
	return &lease.Lease{
		Key: lease.Key{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, host, 0}), 24)},
		Attrs: lease.Attrs{
			PublicIP: netip.AddrFrom4([4]byte{192, 168, 64, host}), BackendType: "wireguard",
			BackendData: fmt.Appendf(nil, `{"PublicKey":%q,"Port":51820}`, key),
			Ways:        lease.Ways{Former: []lease.FormerWay{previous}},
		},
		CreateRevision: int64(host),
	}
}

// A node sends by wireguard to a peer that offers it, in every state: also if the device refuses the peer, while the
// previous backend ends, and whatever else the peer offers. Only a kernel that refuses the device, and the preparation
// of the backend, make it use another one.
func TestNoClearTextToAPeerThatEncrypts(t *testing.T) {
	s, peer := changing(t), changed(9, dataplane.PublicKey{1})
	refused := map[refusal]bool{{0, peer.Key}: true}
	back := opened(t, false, vxlan, wireguard)
	for what, c := range map[string]struct {
		set  *Set
		want string
	}{
		"during the change":        {s, wireguard},
		"refused":                  {s.refusing(refused), wireguard},
		"vxlan ends":               {s.ending(vxlan), wireguard},
		"vxlan has ended":          {s.Without(vxlan), wireguard},
		"no such device":           {s.in(Role{Down: true}, wireguard), vxlan},
		"on the way back":          {back, wireguard},
		"at the end of a way back": {back.ending(wireguard), vxlan},
	} {
		if i, ok := c.set.choose(peer, cidr.V4); !ok || c.set.members[i].id != c.want {
			t.Errorf("%s: the node sends by backend %d, want %s", what, i, c.want)
		}
	}
	behind := record(9, "vxlan", vtep(1, 9), lease.Ways{})
	if i, ok := s.choose(behind, cidr.V4); !ok || i != 1 {
		t.Errorf("a peer that has not followed: backend %d (%t)", i, ok)
	}
	if i, ok := s.ending(vxlan).choose(behind, cidr.V4); ok {
		t.Errorf("a peer that has not followed gets plaintext at the end: backend %d", i)
	}
}

// A peer whose record the present backend refuses keeps its route by a plain previous backend, and by none in the clear
// where the present one encrypts.
func TestRefusedPeer(t *testing.T) {
	key := dataplane.PublicKey{1}
	s := changing(t)
	peers := []*lease.Lease{changed(8, key), changed(9, key)} // the younger one has the key of the older one
	env := backend.Env{Config: s.network(), Uplink: uplink.Uplink{Link: "eth0", MTU: 1500}}
	state, problems := s.Render(env, backend.Self{}, peers)
	if len(problems) != 1 || problems[0].Key != peers[1].Key {
		t.Errorf("problems %v, want one about %s", problems, peers[1].Key)
	}
	for _, p := range peers {
		r, _ := state.Routes.Get(dataplane.RouteKey{Dst: p.Key.V4})
		if r.Link != "flannel-wg" {
			t.Errorf("the route to %s leads to %q", p.Key, r.Link)
		}
	}
	if uses := s.Uses(env, backend.Self{}, peers); len(uses) != 1 || len(uses[0].Sends) > 0 {
		t.Errorf("uses %v", uses)
	}
}

// The port of vxlan changes: a peer whose record names the previous one keeps its route, since the node's only device
// for that VNI takes the place of the peer's. Another VNI is another device.
func TestRecordOfAReplacedBackend(t *testing.T) {
	network, err := config.Parse([]byte(
		`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","Port":8473,"DirectRouting":true}}`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(network)
	if err != nil {
		t.Fatal(err)
	}
	for present, want := range map[string]bool{
		`{"Type":"vxlan"}`: true, `{"Type":"vxlan","Port":4789}`: true, `{"Type":"vxlan","VNI":7}`: false,
		`{"Type":"host-gw"}`: false, `{"Type":"unheard-of"}`: false, `"vxlan"`: false,
	} {
		p := changed(2, dataplane.PublicKey{1})
		p.Attrs.BackendType = "vxlan"
		p.Attrs.BackendData = json.RawMessage(`{"VNI":1,"VtepMAC":"02:00:00:00:00:02"}`)
		p.Attrs.Ways = lease.Ways{Present: json.RawMessage(present)}
		for range 2 { // from memory, too
			if _, ok := s.choose(p, cidr.V4); ok != want {
				t.Errorf("a record for %s: served %t, want %t", present, ok, want)
			}
		}
	}
}

// Two backends that listen at one UDP port are not open together: the second could not
// listen, and the node would never be as desired.
func TestBackendsThatNeedOnePort(t *testing.T) {
	for port, want := range map[string]int{"8473": 1, "8285": 2} {
		network, err := config.Parse([]byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","Port":8473}}`))
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(network, config.Backend{Type: "udp", Options: json.RawMessage(`{"Type":"udp","Port":` + port + `}`)})
		if err != nil || len(s.members) != want {
			t.Errorf("udp at port %s beside vxlan at 8473: %d backends (%v), want %d", port, len(s.members), err, want)
		}
	}
}

// udp serves records of every type, also while it is not the only backend (interop 6.0). A
// record that names its backend is of a node that takes part in the change.
func TestUDPServesAnyRecordDuringAChange(t *testing.T) {
	network, err := config.Parse([]byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"udp"}}`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(network, config.Backend{Type: "vxlan"})
	if err != nil {
		t.Fatal(err)
	}
	p := changed(2, dataplane.PublicKey{1})
	p.Attrs.BackendType, p.Attrs.Ways = "quantum", lease.Ways{}
	if i, ok := s.choose(p, cidr.V4); !ok || i != 0 {
		t.Errorf("served %t by backend %d, want udp", ok, i)
	}
	p.Attrs.Ways.Present = json.RawMessage(`{"Type":"quantum"}`)
	if _, ok := s.choose(p, cidr.V4); ok {
		t.Error("a record that names another backend is served")
	}
}
