package ipsec

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// psk is a pre-shared key of the shortest length.
var psk = strings.Repeat("0123456789abcdef", 6)

// open4 opens the backend with these members of the config's Backend object.
func open4(t *testing.T, members string) (backend.Backend, backend.Env, error) {
	t.Helper()
	network, err := config.Parse([]byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"ipsec"` + members + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Spec().Open(network)
	return b, backend.Env{
		Config: network,
		Uplink: uplink.Uplink{
			Link: "eth0", MTU: 1500,
			IP: netip.MustParseAddr("192.168.64.3"), PublicIP: netip.MustParseAddr("192.168.64.3"),
		},
	}, err
}

func record(t *testing.T, key, ip, backendType string) *lease.Lease {
	t.Helper()
	k, err := lease.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &lease.Lease{Key: k, Attrs: lease.Attrs{PublicIP: netip.MustParseAddr(ip), BackendType: backendType}}
}

// A peer has three policies, a key and a connection (interop 6.6). The block
// policy concerns the whole network.
func TestRender(t *testing.T) {
	const name = "192.168.64.3-10.5.34.0/24-10.5.35.0/24-192.168.64.4"
	want := `policy fwd 10.5.35.0/24 to 10.5.34.0/24 esp 192.168.64.4 to 192.168.64.3 reqid 11 priority 0
policy in 10.5.35.0/24 to 10.5.34.0/24 esp 192.168.64.4 to 192.168.64.3 reqid 11 priority 0
policy out 10.5.0.0/16 to 10.5.0.0/16 block priority 102
policy out 10.5.0.0/16 to 10.5.34.0/24 allow priority 101
policy out 10.5.34.0/24 to 10.5.35.0/24 esp 192.168.64.3 to 192.168.64.4 reqid 11 priority 0
ike charon
shared-key 192.168.64.3 psk-NAME
shared-key 192.168.64.4 psk-NAME
conn ` + name + ` esp aes256gcm16 encap
`
	b, env, err := open4(t, `,"PSK":"`+psk+`","UDPEncap":true,"ESPProposal":"aes256gcm16"`)
	if err != nil {
		t.Fatal(err)
	}
	want = strings.ReplaceAll(want, "psk-NAME", string(dataplane.NewPassphrase(psk).Name()))
	self := backend.Self{Key: record(t, "10.5.34.0-24", "192.168.64.3", Type).Key}
	state, problems := b.Render(env, self, []*lease.Lease{
		record(t, "10.5.35.0-24", "192.168.64.4", Type),
		record(t, "10.5.37.0-24", "192.168.64.6", "vxlan"),
	})
	if d := cmp.Diff(want, state.Dump()); d != "" || len(problems) > 0 {
		t.Errorf("problems %v, rendered (-want +got):\n%s", problems, d)
	}
	if mtu := b.MTU(env); mtu != 1415 {
		t.Errorf("MTU %d, want 1415", mtu)
	}
	if got := (dataplane.Conn{ConnKey: firstConn(state)}).Name(); got != name {
		t.Errorf("connection %s, want %s", got, name)
	}
	if text := fmt.Sprintf("%v %+v %#v", b, b, b.Extent()); strings.Contains(text, psk) {
		t.Error("the pre-shared key is printed")
	}
}

func firstConn(s *dataplane.State) dataplane.ConnKey {
	for k := range s.Conns.All {
		return k
	}
	return dataplane.ConnKey{}
}

// A node that has lost its subnet for certain blocks all packets of pods.
func TestRenderWithoutSubnet(t *testing.T) {
	b, env, err := open4(t, `,"PSK":"`+psk+`"`)
	if err != nil {
		t.Fatal(err)
	}
	state, _ := b.Render(env, backend.Self{}, nil)
	const want = "policy out 10.5.0.0/16 to 10.5.0.0/16 block priority 102\nike charon\n"
	if d := cmp.Diff(want, state.Dump()); d != "" {
		t.Errorf("rendered (-want +got):\n%s", d)
	}
	if mtu := b.MTU(env); mtu != 1423 {
		t.Errorf("MTU %d, want 1423", mtu)
	}
}

// The record holds an address and the type, and no data (interop 3.3).
func TestAttrs(t *testing.T) {
	b, env, err := open4(t, `,"PSK":"`+psk+`"`)
	if err != nil {
		t.Fatal(err)
	}
	attrs, err := b.Attrs(env, lease.Attrs{}, dataplane.NewState(), nil)
	const want = `{"PublicIP":"192.168.64.3","PublicIPv6":null,"BackendType":"ipsec"}`
	if got := string(lease.EncodeAttrs(attrs)); got != want || err != nil {
		t.Errorf("record %s, want %s; error %v", got, want, err)
	}
}

// The errors name the option and the remedy, and never show the key.
func TestBadOptions(t *testing.T) {
	const proposals = "want algorithms as strongSwan names them, such as aes128gcm16-sha256-prfsha256-ecp256"
	for members, want := range map[string]string{
		``:                                      "Backend PSK: ipsec needs a pre-shared key of at least 96 characters",
		`,"PSK":"short"`:                        "Backend PSK: want at least 96 characters, have 5",
		`,"PSK":7`:                              "Backend PSK: want a secret text",
		`,"PSK":["` + psk + `"]`:                "Backend PSK: want a secret text",
		`,"PSK":"` + psk[1:] + `"`:              "Backend PSK: want at least 96 characters, have 95",
		`,"PSK":"` + psk + `","ESPProposal":7`:  "Backend ESPProposal 7: want a text",
		`,"PSK":"` + psk + `","ESPProposal":""`: `Backend ESPProposal "": ` + proposals,
		`,"PSK":"` + psk + `","ESPProposal":"AES"`:    `Backend ESPProposal "AES": ` + proposals,
		`,"PSK":"` + psk + `","ESPProposal":"a,b"`:    `Backend ESPProposal "a,b": ` + proposals,
		`,"PSK":"` + psk + `","ESPProposal":"aes--x"`: `Backend ESPProposal "aes--x": ` + proposals,
		`,"PSK":"` + psk + `","UDPEncap":1`:           `Backend UDPEncap 1: want true or false`,
		`,"PSK":"` + psk + `","UDPEncap":"yes"`:       `Backend UDPEncap "yes": want true or false`,
	} {
		_, _, err := open4(t, members)
		if err == nil || err.Error() != want || strings.Contains(err.Error(), psk[1:]) {
			t.Errorf("%s: %v\nwant %s", members, err, want)
		}
	}
}
