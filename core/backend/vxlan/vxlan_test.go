package vxlan

import (
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/internal/backendtest"
)

const dualConfig = `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48",` +
	`"Backend":{"Type":"vxlan"%s}}`

func newBackend(t *testing.T, conf string) (*Backend, backend.Env) {
	t.Helper()
	return backendtest.Open[*Backend](t, Spec(), conf)
}

func dual(options string) string { return strings.Replace(dualConfig, "%s", options, 1) }

func key(s string) lease.Key {
	k, err := lease.ParseKey(s)
	if err != nil {
		panic(err)
	}
	return k
}

func peer(k, ip, ip6, mac, mac6 string) *lease.Lease {
	l := &lease.Lease{Key: key(k), ID: 1, CreateRevision: 10, Attrs: lease.Attrs{
		PublicIP: netip.MustParseAddr(ip), BackendType: Type,
		BackendData: json.RawMessage(`{"VNI":1,"VtepMAC":"` + mac + `"}`),
	}}
	if ip6 != "" {
		l.Attrs.PublicIPv6 = netip.MustParseAddr(ip6)
		l.Attrs.BackendV6Data = json.RawMessage(`{"VNI":1,"VtepMAC":"` + mac6 + `"}`)
	}
	return l
}

func TestOptions(t *testing.T) {
	for _, c := range []struct{ options, want string }{
		{`,"VNI":0`, "Backend VNI 0: want a whole number from 1 to 16777215"},
		{`,"VNI":16777216`, "Backend VNI 16777216: want a whole number from 1 to 16777215"},
		{`,"TxChecksum":"never"`, `Backend TxChecksum "never": want one of auto, on, off`},
		{`,"MTU":-1`, "Backend MTU -1: want 0 or a whole number from 576 to 65535"},
	} {
		network, err := config.Parse([]byte(dual(c.options)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Spec().Open(network); err == nil || err.Error() != c.want {
			t.Errorf("options %s: error %v, want %s", c.options, err, c.want)
		}
	}
}

// TestTxChecksum checks which value of the feature each device gets, and that the
// backend looks at it.
func TestTxChecksum(t *testing.T) {
	for _, c := range []struct {
		options string
		asked   string // by probes
		want    string
	}{
		{"", "", ""},
		{"", "off", "off"},
		{"", "on", "on"},
		{`,"TxChecksum":"auto"`, "off", "off"},
		{`,"TxChecksum":"on"`, "off", "on"},
		{`,"TxChecksum":"off"`, "", "off"},
	} {
		b, env := newBackend(t, dual(c.options))
		env.TxChecksum = c.asked
		state, _ := b.Render(env, backend.Self{Key: key("10.5.34.0-24&fd00:10:0:34::-64")}, nil)
		for _, dev := range []string{"flannel.1", "flannel-v6.1"} {
			path := "ethtool/" + dev + "/tx-checksum-ip-generic"
			if got := state.Sysctls[path]; got.Value != c.want || c.want != "" && got.Link != dev {
				t.Errorf("%s, asked for %q: %s, want value %q", c.options, c.asked, got, c.want)
			}
			looks := slices.ContainsFunc(b.Extent().Sysctls, func(s dataplane.Sysctl) bool { return s.Path == path })
			if looks == b.AdaptsChecksums() {
				t.Errorf("%s: looks at the feature of %s: %t", c.options, dev, looks)
			}
		}
	}
}

// The IPv6 header is longer, and the MTU of pods fits both devices (interop P5).
func TestMTU(t *testing.T) {
	for _, c := range []struct {
		conf string
		want int
	}{
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`, 1450},
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","MTU":9000}}`, 1450}, // the uplink's 1500 carry no more
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","MTU":1400}}`, 1350},
		{dual(""), 1430},
		{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"vxlan"}}`, 1430},
	} {
		b, env := newBackend(t, c.conf)
		if got := b.MTU(env); got != c.want {
			t.Errorf("%s: MTU %d, want %d", c.conf, got, c.want)
		}
	}
}

func TestAttrsText(t *testing.T) {
	b, env := newBackend(t, dual(""))
	stored := peer("10.5.34.0-24", "192.168.64.3", "fd00:a::3", "c6:d2:32:6f:8f:44", "3e:0b:11:22:33:44").Attrs
	a, err := b.Attrs(env, stored, &dataplane.State{}, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"PublicIP":"192.168.64.3","PublicIPv6":"fd00:a::3","BackendType":"vxlan",` +
		`"BackendData":{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"},"BackendV6Data":{"VNI":1,"VtepMAC":"3e:0b:11:22:33:44"}}`
	if got := string(lease.EncodeAttrs(a)); got != want {
		t.Errorf("record:\n got %s\nwant %s", got, want)
	}
}

// A MAC is taken from the node's record, else from the device, else drawn.
func TestAttrsMAC(t *testing.T) {
	b, env := newBackend(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	have := dataplane.NewState()
	have.AddLink(dataplane.Link{Name: "flannel.1", MAC: dataplane.MAC{2, 0, 0, 0, 0, 7}, Params: dataplane.VXLAN{}})
	stored := peer("10.5.34.0-24", "192.168.64.3", "", "c6:d2:32:6f:8f:44", "").Attrs
	mac := func(stored lease.Attrs, have *dataplane.State) string {
		a, err := b.Attrs(env, stored, have, rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := parseMAC(a.BackendData)
		if err != nil {
			t.Fatalf("published data does not parse: %v", err)
		}
		return m.String()
	}
	if got := mac(stored, have); got != "c6:d2:32:6f:8f:44" {
		t.Errorf("with a record: MAC %s", got)
	}
	if got := mac(lease.Attrs{}, have); got != "02:00:00:00:00:07" {
		t.Errorf("with a device: MAC %s", got)
	}
	drawn, _ := dataplane.ParseMAC(mac(lease.Attrs{}, &dataplane.State{}))
	if drawn[0]&3 != 2 {
		t.Errorf("drawn MAC %s is not a local unicast address", drawn)
	}
}

func TestRender(t *testing.T) {
	b, env := newBackend(t, dual(`,"DirectRouting":true,"Port":4789,"GBP":true`))
	env.Facts.Routes = []driver.Route{
		{Dst: netip.MustParsePrefix("0.0.0.0/0"),
			Hops: []driver.Hop{{Link: "eth0", Via: netip.MustParseAddr("192.168.64.1")}}},
		{Dst: netip.MustParsePrefix("192.168.64.0/24"), Hops: []driver.Hop{{Link: "eth0"}}},
		{Dst: netip.MustParsePrefix("::/0"), Hops: []driver.Hop{{Link: "eth0", Via: netip.MustParseAddr("fd00:a::1")}}},
	}
	self := backend.Self{Key: key("10.5.34.0-24&fd00:10:0:34::-64"),
		Attrs: peer("10.5.34.0-24", "192.168.64.3", "fd00:a::3", "c6:d2:32:6f:8f:44", "3e:0b:11:22:33:44").Attrs}
	far := peer("10.5.35.0-24&fd00:10:0:35::-64", "192.168.99.4", "fd00:b::4", "c6:00:00:00:00:04", "c6:00:00:00:00:64")
	near := peer("10.5.36.0-24", "192.168.64.5", "", "c6:00:00:00:00:05", "")
	state, problems := b.Render(env, self, []*lease.Lease{far, near})
	if len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	want := `link flannel-v6.1 type vxlan mtu 1430 mac 3e:0b:11:22:33:44 up id 1 dev eth0 local fd00:a::3 port 4789 gbp
link flannel.1 type vxlan mtu 1450 mac c6:d2:32:6f:8f:44 up id 1 dev eth0 local 192.168.64.3 port 4789 gbp
addr 10.5.34.0/32 dev flannel.1
addr fd00:10:0:34::/128 dev flannel-v6.1
sysctl net/ipv6/conf/flannel-v6.1/accept_ra = 0 dev flannel-v6.1
sysctl net/ipv6/conf/flannel-v6.1/disable_ipv6 = 0 dev flannel-v6.1
sysctl net/ipv6/conf/flannel.1/accept_ra = 0 dev flannel.1
neigh 10.5.35.0 lladdr c6:00:00:00:00:04 dev flannel.1
neigh fd00:10:0:35:: lladdr c6:00:00:00:00:64 dev flannel-v6.1
fdb c6:00:00:00:00:04 dst 192.168.99.4 dev flannel.1
fdb c6:00:00:00:00:64 dst fd00:b::4 dev flannel-v6.1
route 10.5.35.0/24 via 10.5.35.0 dev flannel.1 onlink
route 10.5.36.0/24 via 192.168.64.5 dev eth0
route fd00:10:0:35::/64 via fd00:10:0:35:: dev flannel-v6.1 onlink
`
	if d := cmp.Diff(want, state.Dump()); d != "" {
		t.Errorf("rendered (-want +got):\n%s", d)
	}
}

// Behind NAT the device sends from the interface's address, and the node publishes
// the public one (interop P6).
func TestPublicAddressIsNotLocal(t *testing.T) {
	b, env := newBackend(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	env.Uplink.PublicIP = netip.MustParseAddr("203.0.113.7")
	a, err := b.Attrs(env, lease.Attrs{}, &dataplane.State{}, rand.New(rand.NewPCG(1, 1)))
	if err != nil || a.PublicIP != env.Uplink.PublicIP {
		t.Errorf("published %s, %v", a.PublicIP, err)
	}
	state, _ := b.Render(env, backend.Self{Key: key("10.5.34.0-24"), Attrs: a}, nil)
	if got := state.Links["flannel.1"].Params.(dataplane.VXLAN).Local; got != env.Uplink.IP {
		t.Errorf("local address %s, want %s", got, env.Uplink.IP)
	}
}

// A bad record is refused by name and affects no other peer.
func TestRenderRefuses(t *testing.T) {
	b, env := newBackend(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	self := backend.Self{Key: key("10.5.34.0-24"),
		Attrs: peer("10.5.34.0-24", "192.168.64.3", "", "c6:d2:32:6f:8f:44", "").Attrs}
	good := peer("10.5.35.0-24", "192.168.64.4", "", "c6:00:00:00:00:04", "")
	younger := func(l *lease.Lease) *lease.Lease { l.CreateRevision = 20; return l }
	data := func(l *lease.Lease, d string) *lease.Lease { l.Attrs.BackendData = json.RawMessage(d); return l }
	for _, c := range []struct {
		name string
		bad  *lease.Lease
		want string
	}{
		{"outside", peer("10.6.1.0-24", "192.168.64.9", "", "c6:00:00:00:00:09", ""),
			"peer 10.6.1.0-24: subnet 10.6.1.0/24 is outside the network 10.5.0.0/16"},
		{"everything", peer("10.0.0.0-8", "192.168.64.9", "", "c6:00:00:00:00:09", ""),
			"peer 10.0.0.0-8: subnet 10.0.0.0/8 is outside the network 10.5.0.0/16"},
		{"ours", peer("10.5.34.128-25", "192.168.64.9", "", "c6:00:00:00:00:09", ""),
			"peer 10.5.34.128-25: subnet 10.5.34.128/25 overlaps our own 10.5.34.0/24"},
		{"overlap", younger(peer("10.5.34.0-23", "192.168.64.9", "", "c6:00:00:00:00:09", "")),
			"peer 10.5.34.0-23: subnet 10.5.34.0/23 overlaps our own 10.5.34.0/24"},
		{"inside older", younger(peer("10.5.35.64-26", "192.168.64.9", "", "c6:00:00:00:00:09", "")),
			"peer 10.5.35.64-26: subnet 10.5.35.64/26 overlaps 10.5.35.0-24 of an older record"},
		{"our address", peer("10.5.36.0-24", "192.168.64.3", "", "c6:00:00:00:00:09", ""),
			"peer 10.5.36.0-24: public address 192.168.64.3 is our own"},
		{"multicast", peer("10.5.36.0-24", "224.0.0.1", "", "c6:00:00:00:00:09", ""),
			"peer 10.5.36.0-24: public address 224.0.0.1 is not a unicast address"},
		{"no data", data(peer("10.5.36.0-24", "192.168.64.9", "", "", ""), ""),
			"peer 10.5.36.0-24: record has no VtepMAC"},
		{"not an object", data(peer("10.5.36.0-24", "192.168.64.9", "", "", ""), "[1]"),
			`peer 10.5.36.0-24: vxlan data "[1]": json: cannot unmarshal array into Go value of type struct { VtepMAC string }`},
		{"multicast MAC", peer("10.5.36.0-24", "192.168.64.9", "", "01:00:00:00:00:09", ""),
			"peer 10.5.36.0-24: VtepMAC 01:00:00:00:00:09 is not a unicast address"},
		{"same MAC", younger(peer("10.5.36.0-24", "192.168.64.9", "", "c6:00:00:00:00:04", "")),
			"peer 10.5.36.0-24: the older peer at 192.168.64.4 has the same VtepMAC c6:00:00:00:00:04"},
		{"our MAC", peer("10.5.36.0-24", "192.168.64.9", "", "c6:d2:32:6f:8f:44", ""),
			"peer 10.5.36.0-24: VtepMAC c6:d2:32:6f:8f:44 is our own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, _ := b.Render(env, self, []*lease.Lease{good})
			got, problems := b.Render(env, self, []*lease.Lease{c.bad, good})
			if len(problems) != 1 || problems[0].String() != c.want {
				t.Errorf("problems %v\nwant %s", problems, c.want)
			}
			if d := cmp.Diff(want.Dump(), got.Dump()); d != "" {
				t.Errorf("the bad record changed the state (-without +with):\n%s", d)
			}
		})
	}
}

// Two records of one host, such as a reservation and the lease it uses instead,
// share its device.
func TestTwoRecordsOfOneHost(t *testing.T) {
	b, env := newBackend(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	state, problems := b.Render(env, backend.Self{Key: key("10.5.34.0-24")}, []*lease.Lease{
		peer("10.5.35.0-24", "192.168.64.4", "", "c6:00:00:00:00:04", ""),
		peer("10.5.36.0-24", "192.168.64.4", "", "c6:00:00:00:00:04", ""),
	})
	if len(problems) > 0 || state.Routes.Len() != 2 || state.Neighs.Len() != 2 || state.FDB.Len() != 1 {
		t.Errorf("problems %v, state:\n%s", problems, state.Dump())
	}
}

// Records of other backends are ignored silently; old records lack a VNI.
func TestRenderAccepts(t *testing.T) {
	b, env := newBackend(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	self := backend.Self{Key: key("10.5.34.0-24")}
	other := peer("10.5.37.0-24", "192.168.64.9", "", "c6:00:00:00:00:09", "")
	other.Attrs.BackendType = "host-gw"
	old := peer("10.5.35.0-24", "192.168.64.4", "", "", "")
	old.Attrs.BackendData = json.RawMessage(`{"VtepMAC":"c6:00:00:00:00:04"}`)
	state, problems := b.Render(env, self, []*lease.Lease{other, old})
	if len(problems) > 0 || state.Routes.Len() != 1 || state.FDB.Len() != 1 || state.Neighs.Len() != 1 {
		t.Errorf("problems %v, state:\n%s", problems, state.Dump())
	}
}

func FuzzParseMAC(f *testing.F) {
	f.Add([]byte(`{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}`))
	f.Add([]byte(`{"VtepMAC":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		mac, err := parseMAC(raw)
		if err == nil && (mac.IsZero() || mac[0]&1 != 0) {
			t.Errorf("accepted %s", mac)
		}
	})
}

// With an uplink of 1280 bytes the kernel gives the tunnel no IPv6: the check says
// which MTU would do.
func TestCheckTooSmallForIPv6(t *testing.T) {
	b, env := newBackend(t, dual(""))
	for mtu, small := range map[int]bool{1280: true, 1349: true, 1350: false} {
		env.Uplink.MTU = mtu
		lack := b.Check(env)
		if (lack != nil) != small {
			t.Errorf("uplink of %d: %+v, want a lack: %t", mtu, lack, small)
		}
		if small && (lack.Link != "flannel-v6.1" || !strings.Contains(lack.Err.Error(), "MTU of 1350 or more")) {
			t.Errorf("uplink of %d: %+v", mtu, lack)
		}
	}
	v4, env := newBackend(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	env.Uplink.MTU = 1280
	if lack := v4.Check(env); lack != nil {
		t.Errorf("IPv4 alone: %+v", lack)
	}
}
