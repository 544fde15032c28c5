package wireguard

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// testPSK is the example of the option.
const testPSK = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="

// key returns a public key that a test can tell from others.
func key(n byte) dataplane.PublicKey { return dataplane.PublicKey{n, 31: 1} }

func network(options string) string {
	return `{"Network":"10.5.0.0/16","Backend":{"Type":"wireguard"` + options + `}}`
}

func dual(options string) string {
	return `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/48",` +
		`"Backend":{"Type":"wireguard"` + options + `}}`
}

func onlyV6(options string) string {
	return `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:5::/48",` +
		`"Backend":{"Type":"wireguard"` + options + `}}`
}

func newBackend(t *testing.T, conf string) (backend.Backend, backend.Env) {
	t.Helper()
	network, err := config.Parse([]byte(conf))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Spec().Open(network)
	if err != nil {
		t.Fatal(err)
	}
	env := backend.Env{
		Config: network,
		Uplink: uplink.Uplink{Link: "eth0", MTU: 1500},
		Facts: driver.HostFacts{Keys: map[dataplane.SecretName]driver.Key{
			dataplane.WireGuardKey: {Public: key(1)},
		}},
	}
	if network.V4.Enabled() {
		env.Uplink.IP = netip.MustParseAddr("192.168.64.1")
		env.Uplink.PublicIP = env.Uplink.IP
	}
	if network.V6.Enabled() {
		env.Uplink.IPv6 = netip.MustParseAddr("fd00:a::1")
		env.Uplink.PublicIPv6 = env.Uplink.IPv6
	}
	return b, env
}

// record returns the record of node n. Its key and addresses have its number.
func record(n byte, families backend.Families, change ...func(*lease.Lease)) *lease.Lease {
	l := &lease.Lease{CreateRevision: int64(n), ModRevision: int64(n)}
	l.Attrs.BackendType = Type
	if families != backend.IPv6Only {
		l.Key.V4 = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, n, 0}), 24)
		l.Attrs.PublicIP = netip.AddrFrom4([4]byte{192, 168, 64, n})
		l.Attrs.BackendData = json.RawMessage(`{"PublicKey":"` + key(n).String() + `","Port":51820}`)
	}
	if families != backend.IPv4Only {
		l.Key.V6 = netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 3: 5, 7: n}), 64)
		l.Attrs.PublicIPv6 = netip.AddrFrom16([16]byte{0: 0xfd, 3: 0xa, 15: n})
		l.Attrs.BackendV6Data = json.RawMessage(`{"PublicKey":"` + key(n).String() + `","Port":51821}`)
	}
	for _, do := range change {
		do(l)
	}
	return l
}

func publicV4(ip string) func(*lease.Lease) {
	return func(l *lease.Lease) { l.Attrs.PublicIP = netip.MustParseAddr(ip) }
}

func publicV6(ip string) func(*lease.Lease) {
	return func(l *lease.Lease) { l.Attrs.PublicIPv6 = netip.MustParseAddr(ip) }
}

func dataV4(text string) func(*lease.Lease) {
	return func(l *lease.Lease) { l.Attrs.BackendData = json.RawMessage(text) }
}

// short replaces the keys of the test's nodes in a text by their numbers.
func short(text string) string {
	for n := range byte(10) {
		text = strings.ReplaceAll(text, key(n).String(), "KEY"+string('0'+n))
	}
	return text
}

func TestRender(t *testing.T) {
	const v4Self = "addr 10.5.1.0/32 dev flannel-wg\n"
	const dualSelf = v4Self + "addr fd00:5:0:1::/128 dev flannel-wg\n" +
		"sysctl net/ipv6/conf/flannel-wg/disable_ipv6 = 0 dev flannel-wg\n"
	const routes = "route 10.5.0.0/16 dev flannel-wg scope 253\nroute fd00:5::/48 dev flannel-wg\n"
	for name, c := range map[string]struct {
		conf  string
		peers []*lease.Lease
		want  string
	}{
		"IPv4": {network(""), []*lease.Lease{record(2, backend.IPv4Only)},
			"link flannel-wg type wireguard mtu 1420 up port 51820 key KEY1\n" + v4Self +
				"wgpeer KEY2 endpoint 192.168.64.2:51820 allowed 10.5.2.0/24 dev flannel-wg\n" +
				"route 10.5.0.0/16 dev flannel-wg scope 253\n"},
		"IPv6": {onlyV6(`,"ListenPortV6":1000`), []*lease.Lease{record(2, backend.IPv6Only)},
			"link flannel-wg-v6 type wireguard mtu 1420 up port 1000 key KEY1\naddr fd00:5:0:1::/128 dev flannel-wg-v6\n" +
				"sysctl net/ipv6/conf/flannel-wg-v6/disable_ipv6 = 0 dev flannel-wg-v6\n" +
				"wgpeer KEY2 endpoint [fd00:a::2]:51821 allowed fd00:5:0:2::/64 dev flannel-wg-v6\n" +
				"route fd00:5::/48 dev flannel-wg-v6\n"},
		"separate": {dual(`,"PersistentKeepaliveInterval":25`), []*lease.Lease{record(2, backend.Both)},
			"link flannel-wg type wireguard mtu 1420 up port 51820 key KEY1\n" +
				"link flannel-wg-v6 type wireguard mtu 1420 up port 51821 key KEY1\n" +
				v4Self + "addr fd00:5:0:1::/128 dev flannel-wg-v6\n" +
				"sysctl net/ipv6/conf/flannel-wg-v6/disable_ipv6 = 0 dev flannel-wg-v6\n" +
				"wgpeer KEY2 endpoint 192.168.64.2:51820 allowed 10.5.2.0/24 keepalive 25 dev flannel-wg\n" +
				"wgpeer KEY2 endpoint [fd00:a::2]:51821 allowed fd00:5:0:2::/64 keepalive 25 dev flannel-wg-v6\n" +
				"route 10.5.0.0/16 dev flannel-wg scope 253\nroute fd00:5::/48 dev flannel-wg-v6\n"},
		// 2: private addresses of both families; 3: a public IPv4 address; 4: IPv4 alone; 5: IPv6 alone
		"auto": {dual(`,"Mode":"auto","PSK":"` + testPSK + `"`), []*lease.Lease{
			record(2, backend.Both), record(3, backend.Both, publicV4("8.8.8.3"), publicV6("2001:db8::3")),
			record(4, backend.IPv4Only), record(5, backend.IPv6Only)},
			"link flannel-wg type wireguard mtu 1420 up port 51820 key KEY1\n" + dualSelf +
				"wgpeer KEY2 endpoint 192.168.64.2:51820 allowed 10.5.2.0/24,fd00:5:0:2::/64 psk PSK dev flannel-wg\n" +
				"wgpeer KEY3 endpoint 8.8.8.3:51820 allowed 10.5.3.0/24,fd00:5:0:3::/64 psk PSK dev flannel-wg\n" +
				"wgpeer KEY4 endpoint 192.168.64.4:51820 allowed 10.5.4.0/24 psk PSK dev flannel-wg\n" +
				"wgpeer KEY5 endpoint [fd00:a::5]:51821 allowed fd00:5:0:5::/64 psk PSK dev flannel-wg\n" + routes},
		"ipv4": {dual(`,"Mode":"ipv4","Overhead":60`), []*lease.Lease{record(2, backend.Both, publicV6("2001:db8::2"))},
			"link flannel-wg type wireguard mtu 1440 up port 51820 key KEY1\n" + dualSelf +
				"wgpeer KEY2 endpoint 192.168.64.2:51820 allowed 10.5.2.0/24,fd00:5:0:2::/64 dev flannel-wg\n" + routes},
		// Upstream publishes port 51821 although only ListenPort is open (interop P10).
		"ipv6": {dual(`,"Mode":"ipv6"`), []*lease.Lease{record(2, backend.Both)},
			"link flannel-wg type wireguard mtu 1420 up port 51820 key KEY1\n" + dualSelf +
				"wgpeer KEY2 endpoint [fd00:a::2]:51820 allowed 10.5.2.0/24,fd00:5:0:2::/64 dev flannel-wg\n" + routes},
		"userspace; an old record without a port, and one of another backend": {network(
			`,"Implementation":"userspace","MTU":1400,"ListenPort":7`),
			[]*lease.Lease{record(2, backend.IPv4Only, dataV4(`{"PublicKey":"`+key(2).String()+`"}`)),
				record(3, backend.IPv4Only, func(l *lease.Lease) { l.Attrs.BackendType = "vxlan" })},
			"link flannel-wg type wireguard mtu 1320 up userspace port 7 key KEY1\n" + v4Self +
				"wgpeer KEY2 endpoint 192.168.64.2:7 allowed 10.5.2.0/24 dev flannel-wg\n" +
				"route 10.5.0.0/16 dev flannel-wg scope 253\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b, env := newBackend(t, c.conf)
			self := backend.Self{Key: record(1, backend.FamiliesOf(env.Config)).Key}
			state, problems := b.Render(env, self, c.peers)
			psk, _ := dataplane.ParseSecret(testPSK)
			got := strings.ReplaceAll(short(state.Dump()), string(psk.PSKName()), "PSK")
			if d := cmp.Diff(c.want, got); d != "" || len(problems) > 0 {
				t.Errorf("problems %v, rendered (-want +got):\n%s", problems, d)
			}
		})
	}
}

// A node with a public IPv6 address does not send to a private one (interop 6.5).
func TestAutoTakesIPv6(t *testing.T) {
	b, env := newBackend(t, dual(`,"Mode":"auto"`))
	env.Uplink.PublicIPv6 = netip.MustParseAddr("2001:db8::1")
	peers := []*lease.Lease{record(2, backend.Both), record(3, backend.Both, publicV6("2001:db8::3"))}
	state, problems := b.Render(env, backend.Self{}, peers)
	var endpoints []string
	for _, p := range state.WGPeers.All {
		endpoints = append(endpoints, p.Endpoint.String())
	}
	want := []string{"192.168.64.2:51820", "[2001:db8::3]:51820"}
	if d := cmp.Diff(want, endpoints); d != "" || len(problems) > 0 {
		t.Errorf("problems %v, endpoints (-want +got):\n%s", problems, d)
	}
}

// The records are upstream's, byte for byte, except that a family without a port of
// its own names the real one (interop 3.3, P10).
func TestAttrs(t *testing.T) {
	for conf, want := range map[string]string{
		network(""): `{"PublicIP":"192.168.64.1","PublicIPv6":null,"BackendType":"wireguard",` +
			`"BackendData":{"PublicKey":"KEY1","Port":51820}}`,
		dual(""): `{"PublicIP":"192.168.64.1","PublicIPv6":"fd00:a::1","BackendType":"wireguard",` +
			`"BackendData":{"PublicKey":"KEY1","Port":51820},"BackendV6Data":{"PublicKey":"KEY1","Port":51821}}`,
		dual(`,"Mode":"auto","ListenPort":9`): `{"PublicIP":"192.168.64.1","PublicIPv6":"fd00:a::1",` +
			`"BackendType":"wireguard","BackendData":{"PublicKey":"KEY1","Port":9},` +
			`"BackendV6Data":{"PublicKey":"KEY1","Port":9}}`,
		onlyV6(""): `{"PublicIP":"0.0.0.0","PublicIPv6":"fd00:a::1","BackendType":"wireguard",` +
			`"BackendV6Data":{"PublicKey":"KEY1","Port":51821}}`,
	} {
		b, env := newBackend(t, conf)
		attrs, err := b.Attrs(env, lease.Attrs{}, dataplane.NewState(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := short(string(lease.EncodeAttrs(attrs))); got != want {
			t.Errorf("%s: record\n%s, want\n%s", conf, got, want)
		}
	}
}

// Without its key a node waits, and says why.
func TestAttrsWithoutKey(t *testing.T) {
	b, env := newBackend(t, network(""))
	for why, facts := range map[string]driver.Key{
		"the node's WireGuard key is not known yet":         {},
		"the node's WireGuard key: file has mode 0644: ...": {Err: "file has mode 0644: ..."},
	} {
		env.Facts.Keys[dataplane.WireGuardKey] = facts
		_, err := b.Attrs(env, lease.Attrs{}, dataplane.NewState(), nil)
		if _, waits := err.(backend.NotYet); !waits || err.Error() != why {
			t.Errorf("error %v, want %s", err, why)
		}
	}
}

// A device has the node's key, except while it has to keep the one that peers know or the node's cannot be read.
func TestKeyOfADevice(t *testing.T) {
	b, env := newBackend(t, network(""))
	for name, c := range map[string]struct {
		now  driver.Key
		kept map[string]dataplane.PublicKey
		want dataplane.PublicKey
	}{
		"a new key":            {driver.Key{Public: key(9)}, nil, key(9)},
		"a key to keep":        {driver.Key{Public: key(9)}, map[string]dataplane.PublicKey{device: key(7)}, key(7)},
		"of another device":    {driver.Key{Public: key(9)}, map[string]dataplane.PublicKey{deviceV6: key(7)}, key(9)},
		"a file without a key": {driver.Key{Err: "file has mode 0644"}, nil, key(1)},
	} {
		env.Facts.Keys[dataplane.WireGuardKey], env.KeptKeys = c.now, c.kept
		state, _ := b.Render(env, backend.Self{Attrs: record(1, backend.IPv4Only).Attrs}, nil)
		if got := state.Links[device].Params.(dataplane.WireGuard).PublicKey; got != c.want {
			t.Errorf("%s: key %s", name, short(got.String()))
		}
	}
}

// Only with Implementation auto does the choice depend on the kernel. A note tells
// the operator.
func TestImplementation(t *testing.T) {
	for implementation, want := range map[string]struct{ lacks, has bool }{
		"auto": {true, false}, "kernel": {false, false}, "userspace": {true, true},
	} {
		b, env := newBackend(t, network(`,"Implementation":"`+implementation+`"`))
		state, _ := b.Render(env, backend.Self{}, nil)
		if got := state.Links[device].Params.(dataplane.WireGuard).Userspace; got != want.has {
			t.Errorf("%s, kernel with WireGuard: userspace %t", implementation, got)
		}
		env.Facts.Unsupported = map[dataplane.LinkKind]string{dataplane.LinkWireGuard: "no module wireguard"}
		state, _ = b.Render(env, backend.Self{}, nil)
		if got := state.Links[device].Params.(dataplane.WireGuard).Userspace; got != want.lacks {
			t.Errorf("%s, kernel without WireGuard: userspace %t", implementation, got)
		}
		notes := strings.Join(b.(backend.Noter).Notes(env), "")
		if told := strings.Contains(notes, "no module wireguard"); told != want.lacks {
			t.Errorf("%s: notes %q", implementation, notes)
		}
	}
}

// A record that cannot be served is named, and the others are served.
func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		bad  *lease.Lease
		want string
	}{
		"no data": {record(3, backend.IPv4Only, dataV4("")), "peer 10.5.3.0-24: record has no PublicKey"},
		"null":    {record(3, backend.IPv4Only, dataV4("null")), "peer 10.5.3.0-24: record has no PublicKey"},
		"another's data": {record(3, backend.IPv4Only, dataV4(`{"VNI":1}`)),
			`peer 10.5.3.0-24: PublicKey: public key "": want 32 bytes in base64, not all zero`},
		"a short key": {record(3, backend.IPv4Only, dataV4(`{"PublicKey":"AAAA"}`)),
			`peer 10.5.3.0-24: PublicKey: public key "AAAA": want 32 bytes in base64, not all zero`},
		"a port too high": {record(3, backend.IPv4Only, dataV4(`{"PublicKey":"`+key(3).String()+`","Port":70000}`)),
			"peer 10.5.3.0-24: record has the port 70000"},
		"our key": {record(3, backend.IPv4Only, dataV4(`{"PublicKey":"`+key(1).String()+`"}`)),
			"peer 10.5.3.0-24: PublicKey KEY1 is our own"},
		"overlapping subnets": {record(3, backend.IPv4Only, func(l *lease.Lease) {
			l.Key.V4 = netip.MustParsePrefix("10.5.2.128/25")
		}), "peer 10.5.2.128-25: subnet 10.5.2.128/25 overlaps 10.5.2.0-24 of an older record"},
	} {
		b, env := newBackend(t, network(""))
		peers := []*lease.Lease{c.bad, record(2, backend.IPv4Only)}
		state, problems := b.Render(env, backend.Self{}, peers)
		if len(problems) != 1 || short(problems[0].String()) != c.want {
			t.Errorf("%s: problems %v, want %s", name, problems, c.want)
		}
		served := dataplane.WGPeerKey{Link: device, Public: key(2)}
		if p, _ := state.WGPeers.Get(served); state.WGPeers.Len() != 1 || p.Allowed[0].String() != "10.5.2.0/24" {
			t.Errorf("%s: peers\n%s", name, short(state.Dump()))
		}
	}
}

// A record with another one's key takes no packet from that one's subnet, whatever address it names and however old
// it is: packets to both subnets go to the host with the key. The oldest record says where that is.
func TestCopiedKey(t *testing.T) {
	address := func(a string) func(*lease.Lease) {
		return func(l *lease.Lease) { l.Attrs.PublicIP = netip.MustParseAddr(a) }
	}
	later := func(l *lease.Lease) { l.CreateRevision, l.ModRevision = 90, 90 }
	const unchanged = "192.168.64.2:51820"
	for name, c := range map[string]struct {
		change   []func(*lease.Lease)
		port     int
		endpoint string // with that of the other record
		problem  string
	}{
		"of the same host": {[]func(*lease.Lease){later, address("192.168.64.2")}, 51820, unchanged, ""},
		"with another port": {
			[]func(*lease.Lease){later, address("192.168.64.2")}, 1, unchanged + " others 192.168.64.2:1",
			"peer 10.5.3.0-24"},
		"of another host": {
			[]func(*lease.Lease){later}, 51820, unchanged + " others 192.168.64.3:51820", "peer 10.5.3.0-24"},
		"of an older host": {nil, 51820, "192.168.64.3:51820 others " + unchanged, "peer 10.5.2.0-24"},
	} {
		data := fmt.Sprintf(`{"PublicKey":%q,"Port":%d}`, key(2), c.port)
		copied := record(3, backend.IPv4Only, append(c.change, dataV4(data))...)
		own := record(2, backend.IPv4Only, func(l *lease.Lease) { l.CreateRevision, l.ModRevision = 50, 95 })
		b, env := newBackend(t, network(""))
		state, problems := b.Render(env, backend.Self{}, []*lease.Lease{copied, own})
		want := "wgpeer KEY2 endpoint " + c.endpoint + " allowed 10.5.2.0/24,10.5.3.0/24 dev flannel-wg"
		p, _ := state.WGPeers.Get(dataplane.WGPeerKey{Link: device, Public: key(2)})
		if state.WGPeers.Len() != 1 || short(p.String()) != want {
			t.Errorf("%s: peers\n%s, want %s", name, short(state.Dump()), want)
		}
		var texts []string
		for _, p := range problems {
			texts = append(texts, p.String())
		}
		told := strings.Join(texts, ", ")
		if (c.problem == "") != (told == "") || !strings.HasPrefix(told, c.problem) {
			t.Errorf("%s: problems %q, want %q", name, told, c.problem)
		}
		if len(problems) > 0 && !problems[0].Served {
			t.Errorf("%s: the problem says that the peer is not served", name)
		}
	}
}

// However many records copy a key, the oldest of them is served.
func TestKeyOfManyRecords(t *testing.T) {
	b, env := newBackend(t, network(""))
	var peers []*lease.Lease
	for n := range byte(100) {
		peers = append(peers, record(100-n, backend.IPv4Only, dataV4(`{"PublicKey":"`+key(2).String()+`","Port":51820}`),
			func(l *lease.Lease) {
				l.Attrs.PublicIP, l.CreateRevision = netip.MustParseAddr("192.168.64.2"), int64(n)+1
			}))
	}
	state, problems := b.Render(env, backend.Self{}, peers)
	p, _ := state.WGPeers.Get(dataplane.WGPeerKey{Link: device, Public: key(2)})
	if !p.Allows(peers[0].Key.V4) || p.Allows(peers[99].Key.V4) {
		t.Errorf("served: %s", short(p.String()))
	}
	if len(problems) != 100-maxSubnets || problems[0].Served {
		t.Errorf("%d problems, first %v", len(problems), problems[:min(1, len(problems))])
	}
}

// A record that the datastore has lost does not say where its host is while a record in the datastore does, even if it
// names the address of an older host.
func TestLostRecordYields(t *testing.T) {
	first := record(2, backend.IPv4Only)
	lost := record(3, backend.IPv4Only, dataV4(`{"PublicKey":"`+key(4).String()+`","Port":1}`), func(l *lease.Lease) {
		l.Attrs.PublicIP = first.Attrs.PublicIP
		l.CreateRevision = lease.Youngest
	})
	b, env := newBackend(t, network(""))
	state, problems := b.Render(env, backend.Self{}, []*lease.Lease{first, lost, record(4, backend.IPv4Only)})
	p, _ := state.WGPeers.Get(dataplane.WGPeerKey{Link: device, Public: key(4)})
	if len(problems) != 1 || p.Endpoint.String() != "192.168.64.4:51820" || p.Allows(lost.Key.V4) {
		t.Errorf("problems %v, peers\n%s", problems, short(state.Dump()))
	}
}

func FuzzParseData(f *testing.F) {
	f.Add([]byte(`{"PublicKey":"` + key(2).String() + `","Port":51820}`))
	f.Add([]byte(`{"PublicKey":null,"Port":1.5}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := parseData(raw)
		if err == nil && d.key.IsZero() {
			t.Errorf("%q: no key and no error", raw)
		}
	})
}
