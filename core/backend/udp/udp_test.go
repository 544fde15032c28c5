package udp

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/internal/backendtest"
)

// newBackend is behind a translated address.
func newBackend(t *testing.T, conf string) (*Backend, backend.Env) {
	t.Helper()
	b, env := backendtest.Open[*Backend](t, Spec(), conf)
	env.Uplink.PublicIP = netip.MustParseAddr("203.0.113.3")
	return b, env
}

// The socket binds to the interface's address, not to the public one (interop
// 6.1), and peers of every published type are served (interop 6.0).
func TestRender(t *testing.T) {
	b, env := newBackend(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"UDP","Port":9000,"Offload":"gso"}}`)
	self := backend.Self{Key: backendtest.Record(t, "10.5.34.0-24", "", "203.0.113.3").Key}
	state, problems := b.Render(env, self, []*lease.Lease{
		backendtest.Record(t, "10.5.35.0-24", "", "192.168.64.4"),
		backendtest.Record(t, "10.5.36.0-25", "vxlan", "192.168.64.5"),
		backendtest.Record(t, "10.5.37.0-24", "", "203.0.113.3"),
		backendtest.Record(t, "10.9.0.0-24", "", "192.168.64.6"),
	})
	want := `link flannel0 type tun mtu 1472 up
addr 10.5.34.0/32 dev flannel0
sysctl net/ipv4/conf/flannel0/accept_local = 1 dev flannel0
proxy flannel0 local 192.168.64.3:9000 subnet 10.5.34.0/24 mtu 1472 offload gso
peer 10.5.35.0/24 to 192.168.64.4 dev flannel0
peer 10.5.36.0/25 to 192.168.64.5 dev flannel0
route 10.5.0.0/16 dev flannel0 metric 1
`
	if d := cmp.Diff(want, state.Dump()); d != "" {
		t.Errorf("rendered (-want +got):\n%s", d)
	}
	var said []string
	for _, p := range problems {
		said = append(said, p.String())
	}
	if d := cmp.Diff([]string{
		"peer 10.5.37.0-24: public address 203.0.113.3 is our own",
		"peer 10.9.0.0-24: subnet 10.9.0.0/24 is outside the network 10.5.0.0/16",
	}, said); d != "" {
		t.Errorf("problems (-want +got):\n%s", d)
	}
	other, ok := b.Aside()
	aside, _ := other.Render(env, self, nil)
	text := aside.Dump()
	if !ok || strings.Contains(text, "flannel0") || !strings.Contains(text, "proxy fl.udp.9000 local 192.168.64.3:9000 ") {
		t.Errorf("beside another port:\n%s", text)
	}
	if mtu := b.MTU(env); mtu != 1472 {
		t.Errorf("MTU %d, want 1472", mtu)
	}
}

// A node that has lost its subnet for certain keeps the device.
func TestRenderWithoutSubnet(t *testing.T) {
	b, env := newBackend(t, `{"Network":"10.5.0.0/16"}`)
	state, _ := b.Render(env, backend.Self{}, []*lease.Lease{backendtest.Record(t, "10.5.35.0-24", "", "192.168.64.4")})
	if d := cmp.Diff("link flannel0 type tun mtu 1472 up\nsysctl net/ipv4/conf/flannel0/accept_local = 1 dev flannel0\n",
		state.Dump()); d != "" {
		t.Errorf("rendered (-want +got):\n%s", d)
	}
}

func TestAttrsText(t *testing.T) {
	b, env := newBackend(t, `{"Network":"10.5.0.0/16"}`)
	a, err := b.Attrs(env, lease.Attrs{BackendType: "vxlan"}, &dataplane.State{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(lease.EncodeAttrs(a)), `{"PublicIP":"203.0.113.3","PublicIPv6":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		backend string
		want    options
		err     string
	}{
		{``, options{8285, "auto"}, ``},
		{`{"Type":"udp"}`, options{8285, "auto"}, ``},
		{`{"Type":"udp","Port":null,"Offload":null}`, options{8285, "auto"}, ``},
		{`{"Type":"udp","port":1,"offload":"off"}`, options{1, "off"}, ``},
		{`{"Type":"udp","Port":65535,"Offload":"gso"}`, options{65535, "gso"}, ``},
		{`{"Type":"udp","Port":0}`, options{}, `Backend Port 0: want a whole number from 1 to 65535`},
		{`{"Type":"udp","Port":65536}`, options{}, `Backend Port 65536: want a whole number from 1 to 65535`},
		{`{"Type":"udp","Port":-1}`, options{}, `Backend Port -1: want a whole number from 1 to 65535`},
		{`{"Type":"udp","Port":"8285"}`, options{}, `Backend Port "8285": want a whole number from 1 to 65535`},
		{`{"Type":"udp","Port":82.85}`, options{}, `Backend Port 82.85: want a whole number from 1 to 65535`},
		{`{"Type":"udp","Offload":"GSO"}`, options{}, `Backend Offload "GSO": want one of auto, gso, off`},
		{`{"Type":"udp","Offload":""}`, options{}, `Backend Offload "": want one of auto, gso, off`},
		{`{"Type":"udp","Offload":true}`, options{}, `Backend Offload true: want one of auto, gso, off`},
	} {
		conf := `{"Network":"10.5.0.0/16","Backend":` + c.backend + `}`
		network, err := config.Parse([]byte(strings.Replace(conf, `,"Backend":}`, `}`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		b, err := Spec().Open(network)
		switch {
		case c.err == "" && (err != nil || b.(*Backend).opts != c.want):
			t.Errorf("%s: %+v, %v, want %+v", c.backend, b, err, c.want)
		case c.err != "" && (err == nil || err.Error() != c.err):
			t.Errorf("%s\n got %v\nwant %s", c.backend, err, c.err)
		}
	}
}

// A look reads the device and its setting, and a status says what both need.
func TestExtent(t *testing.T) {
	b, _ := newBackend(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"udp"}}`)
	e := b.Extent()
	want := []dataplane.Sysctl{{Path: "net/ipv4/conf/flannel0/accept_local", Value: "1", Link: "flannel0"}}
	if diff := cmp.Diff([]string{"flannel0"}, e.Links) + cmp.Diff(want, e.Sysctls); diff != "" {
		t.Error(diff)
	}
	if Spec().Needs != "/dev/net/tun" {
		t.Errorf("needs %q", Spec().Needs)
	}
}
