package oracle

import (
	"encoding/base64"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/internal/imports"
)

// allowed are the packages of the core that the oracle may use: values and the
// form of records, nothing that computes the daemon's answer.
var allowed = []string{"cidr", "dataplane", "driver", "lease"}

func TestOracleIsIndependent(t *testing.T) {
	own, err := imports.Own(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range own {
		core, isCore := strings.CutPrefix(path, "core/")
		if path != "internal/imports" && (!isCore || !slices.Contains(allowed, core)) {
			t.Errorf("the oracle imports %s; it may import core/%s only", path, strings.Join(allowed, ", core/"))
		}
	}
}

// host returns 192.168.64.1, fd00:64::1, with all flags set.
func host(config string) Host {
	usable := driver.Tool{Usable: true, RandomFully: true}
	tools := driver.Tools{IPTables: usable, NFTables: usable}
	addrs := [2]netip.Addr{netip.MustParseAddr("192.168.64.1"), netip.MustParseAddr("fd00:64::1")}
	return Host{
		Config: config, Blackhole: true, Masquerade: true, Forward: true, Tools: [2]driver.Tools{tools, tools},
		Uplink: Uplink{
			Link: "eth0", MTU: 1500, Addr: addrs, Public: addrs,
			Segment: [2]netip.Prefix{netip.MustParsePrefix("192.168.64.0/24"), netip.MustParsePrefix("fd00:64::/64")},
		},
	}
}

// record returns the record of a host, created at the revision of its number.
func record(t *testing.T, number int, key, attrs string) lease.Lease {
	t.Helper()
	k, err := lease.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a, err := lease.DecodeAttrs([]byte(attrs))
	if err != nil {
		t.Fatal(err)
	}
	return lease.Lease{Key: k, Attrs: a, CreateRevision: int64(number)}
}

const (
	dualConfig = `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10:5::/48","Backend":{"Type":"vxlan"}}`
	dualOwn    = `{"PublicIP":"192.168.64.1","PublicIPv6":"fd00:64::1","BackendType":"vxlan",` +
		`"BackendData":{"VNI":1,"VtepMAC":"02:00:00:00:00:01"},"BackendV6Data":{"VNI":1,"VtepMAC":"02:00:00:00:06:01"}}`
	dualPeer = `{"PublicIP":"192.168.64.2","PublicIPv6":"fd00:64::2","BackendType":"vxlan",` +
		`"BackendData":{"VNI":1,"VtepMAC":"02:00:00:00:00:02"},"BackendV6Data":{"VNI":1,"VtepMAC":"02:00:00:00:06:02"}}`
	dualWant = `link flannel-v6.1 type vxlan mtu 1430 mac 02:00:00:00:06:01 up id 1 dev eth0 local fd00:64::1 port 8472
link flannel.1 type vxlan mtu 1450 mac 02:00:00:00:00:01 up id 1 dev eth0 local 192.168.64.1 port 8472
addr 10.5.1.0/32 dev flannel.1
addr fd00:10:5:1::/128 dev flannel-v6.1
sysctl net/ipv6/conf/flannel-v6.1/accept_ra = 0 dev flannel-v6.1
sysctl net/ipv6/conf/flannel-v6.1/disable_ipv6 = 0 dev flannel-v6.1
sysctl net/ipv6/conf/flannel.1/accept_ra = 0 dev flannel.1
neigh 10.5.2.0 lladdr 02:00:00:00:00:02 dev flannel.1
neigh fd00:10:5:2:: lladdr 02:00:00:00:06:02 dev flannel-v6.1
fdb 02:00:00:00:00:02 dst 192.168.64.2 dev flannel.1
fdb 02:00:00:00:06:02 dst fd00:64::2 dev flannel-v6.1
route 10.5.1.0/24 blackhole metric 4294967295
route 10.5.2.0/24 via 10.5.2.0 dev flannel.1 onlink
route fd00:10:5:1::/64 blackhole metric 4294967295
route fd00:10:5:2::/64 via fd00:10:5:2:: dev flannel-v6.1 onlink
`
)

func demanded(t *testing.T, h Host, own lease.Lease, others ...lease.Lease) Demand {
	t.Helper()
	d, err := Demanded(h, own, others)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// plain returns the same host without a blackhole route.
func plain(config string) Host {
	h := host(config)
	h.Blackhole = false
	return h
}

// demandCase is a host with its records, and the objects that it must hold.
type demandCase struct {
	host Host
	own  lease.Lease
	peer []lease.Lease
	want string
}

func checkDemanded(t *testing.T, cases map[string]demandCase) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := demanded(t, c.host, c.own, c.peer...).want
			clear(want.Chains)
			if diff := cmp.Diff(sorted(c.want), sorted(want.Dump())); diff != "" {
				t.Errorf("demanded (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDemanded(t *testing.T) {
	dualKey, peerKey := "10.5.1.0-24&fd00:10:5:1::-64", "10.5.2.0-24&fd00:10:5:2::-64"
	noIPv6 := plain(`{"Network":"10.5.0.0/16",
		"Backend":{"Type":"vxlan","VNI":9,"Port":4789,"MTU":1400,"Learning":true,"GBP":true,"TxChecksum":"off"}}`)
	noIPv6.NoIPv6 = true
	ninth := strings.ReplaceAll(dualOwn, `"VNI":1`, `"VNI":9`)
	checkDemanded(t, map[string]demandCase{
		"vxlan in both families": {host(dualConfig), record(t, 1, dualKey, dualOwn),
			[]lease.Lease{record(t, 2, peerKey, dualPeer)}, dualWant},
		"vxlan with options, on a kernel without IPv6": {noIPv6, record(t, 1, "10.5.1.0-24", ninth), nil,
			"link flannel.9 type vxlan mtu 1350 mac 02:00:00:00:00:01 up id 9 dev eth0 " +
				"local 192.168.64.1 port 4789 learning gbp\n" +
				"addr 10.5.1.0/32 dev flannel.9\n" +
				"sysctl ethtool/flannel.9/tx-checksum-ip-generic = off dev flannel.9\n"},
		"any MAC while the own record is that of another vxlan": {noIPv6, record(t, 1, "10.5.1.0-24", dualOwn), nil,
			"link flannel.9 type vxlan mtu 1350 up id 9 dev eth0 local 192.168.64.1 port 4789 learning gbp\n" +
				"addr 10.5.1.0/32 dev flannel.9\n" +
				"sysctl ethtool/flannel.9/tx-checksum-ip-generic = off dev flannel.9\n"},
		"direct routing on one's own segment": {
			plain(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","DirectRouting":true}}`),
			record(t, 1, "10.5.1.0-24", dualOwn),
			[]lease.Lease{
				record(t, 2, "10.5.2.0-24", dualPeer),
				record(t, 3, "10.5.3.0-24", strings.NewReplacer("64.2", "65.3", "00:02", "00:03").Replace(dualPeer)),
			},
			"link flannel.1 type vxlan mtu 1450 mac 02:00:00:00:00:01 up id 1 dev eth0 local 192.168.64.1 port 8472\n" +
				"addr 10.5.1.0/32 dev flannel.1\n" +
				"sysctl net/ipv6/conf/flannel.1/accept_ra = 0 dev flannel.1\n" +
				"neigh 10.5.3.0 lladdr 02:00:00:00:00:03 dev flannel.1\n" +
				"fdb 02:00:00:00:00:03 dst 192.168.65.3 dev flannel.1\n" +
				"route 10.5.2.0/24 via 192.168.64.2 dev eth0\n" +
				"route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink\n"},
		"host-gw": {plain(`{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`),
			record(t, 1, "10.5.1.0-24", `{"PublicIP":"192.168.64.1","BackendType":"host-gw"}`),
			[]lease.Lease{
				record(t, 2, "10.5.2.0-24", `{"PublicIP":"192.168.64.2","BackendType":"host-gw"}`),
				record(t, 3, "10.5.3.0-24", `{"PublicIP":"192.168.65.3","BackendType":"host-gw"}`),
				record(t, 4, "10.5.4.0-24", dualPeer),
			},
			"route 10.5.2.0/24 via 192.168.64.2 dev eth0\n"},
		"udp serves every record": {plain(`{"Network":"10.5.0.0/16","Backend":{"Type":"udp","Port":9000}}`),
			record(t, 1, "10.5.1.0-24", `{"PublicIP":"192.168.64.1"}`), []lease.Lease{record(t, 4, "10.5.4.0-24", dualPeer)},
			"link flannel0 type tun mtu 1472 up\n" +
				"addr 10.5.1.0/32 dev flannel0\n" +
				"sysctl net/ipv4/conf/flannel0/accept_local = 1 dev flannel0\n" +
				"route 10.5.0.0/16 dev flannel0 metric 1\n" +
				"proxy flannel0 local 192.168.64.1:9000 subnet 10.5.1.0/24 mtu 1472 offload auto\n" +
				"peer 10.5.4.0/24 to 192.168.64.2 dev flannel0\n"},
		"alloc": {plain(`{"Network":"10.5.0.0/16","Backend":{"Type":"alloc"}}`), record(t, 1, "10.5.1.0-24", dualOwn),
			[]lease.Lease{record(t, 2, "10.5.2.0-24", dualPeer)}, ""},
	})
}

// TestDemandedBesideOtherBackends checks what hosts of more backends must hold, beside
// records of another backend.
func TestDemandedBesideOtherBackends(t *testing.T) {
	checkDemanded(t, map[string]demandCase{
		"ipip": {plain(`{"Network":"10.5.0.0/16","Backend":{"Type":"ipip","DirectRouting":true}}`),
			record(t, 1, "10.5.1.0-24", `{"PublicIP":"192.168.64.1","BackendType":"ipip"}`),
			[]lease.Lease{
				record(t, 2, "10.5.2.0-24", `{"PublicIP":"192.168.64.2","BackendType":"ipip"}`),
				record(t, 3, "10.5.3.0-24", `{"PublicIP":"192.168.65.3","BackendType":"ipip"}`),
				record(t, 4, "10.5.4.0-24", dualPeer),
			},
			"link flannel.ipip type ipip mtu 1480 up local 192.168.64.1\n" +
				"addr 10.5.1.0/32 dev flannel.ipip\n" +
				"route 10.5.2.0/24 via 192.168.64.2 dev eth0 onlink\n" +
				"route 10.5.3.0/24 via 192.168.65.3 dev flannel.ipip onlink\n"},
		"wireguard": {plain(`{"Network":"10.5.0.0/16",` +
			`"Backend":{"Type":"wireguard","ListenPort":7000,"PersistentKeepaliveInterval":25}}`),
			record(t, 1, "10.5.1.0-24", wireguardRecord("192.168.64.1", "a")),
			[]lease.Lease{
				record(t, 2, "10.5.2.0-24", wireguardRecord("192.168.64.2", "b")),
				record(t, 3, "10.5.3.0-24", wireguardRecord("192.168.65.3", "b")), // the older peer's key: it gets the packets
				record(t, 4, "10.5.4.0-24", dualPeer),
			},
			"link flannel-wg type wireguard mtu 1420 up port 7000 key " + keyText("a") + "\n" +
				"addr 10.5.1.0/32 dev flannel-wg\n" +
				"route 10.5.0.0/16 dev flannel-wg scope 253\n" +
				"wgpeer " + keyText("b") +
				" endpoint 192.168.64.2:7000 allowed 10.5.2.0/24,10.5.3.0/24 keepalive 25 dev flannel-wg\n"},
		"ipsec": {plain(`{"Network":"10.5.0.0/16","Backend":{"Type":"ipsec","PSK":"quiet","UDPEncap":true}}`),
			record(t, 1, "10.5.1.0-24", `{"PublicIP":"192.168.64.1","BackendType":"ipsec"}`),
			[]lease.Lease{
				record(t, 2, "10.5.2.0-24", `{"PublicIP":"192.168.64.2","BackendType":"ipsec"}`),
				record(t, 4, "10.5.4.0-24", dualPeer),
			},
			"policy out 10.5.0.0/16 to 10.5.0.0/16 block priority 102\n" +
				"policy out 10.5.0.0/16 to 10.5.1.0/24 allow priority 101\n" +
				"policy out 10.5.1.0/24 to 10.5.2.0/24 esp 192.168.64.1 to 192.168.64.2 reqid 11 priority 0\n" +
				"policy in 10.5.2.0/24 to 10.5.1.0/24 esp 192.168.64.2 to 192.168.64.1 reqid 11 priority 0\n" +
				"policy fwd 10.5.2.0/24 to 10.5.1.0/24 esp 192.168.64.2 to 192.168.64.1 reqid 11 priority 0\n" +
				"route 10.5.1.0/24 blackhole metric 4294967295\n" +
				"ike charon\n" +
				"shared-key 192.168.64.1 psk-66ac4e0f\n" +
				"shared-key 192.168.64.2 psk-66ac4e0f\n" +
				"conn 192.168.64.1-10.5.1.0/24-10.5.2.0/24-192.168.64.2 esp aes128gcm16-sha256-prfsha256-ecp256 encap\n"},
		"extension with routes": {plain(`{"Network":"10.5.0.0/16","Backend":{"Type":"extension",` +
			`"SubnetAddCommand":"ip route add $SUBNET via $PUBLIC_IP"}}`),
			record(t, 1, "10.5.1.0-24", `{"PublicIP":"192.168.64.1","BackendType":"extension"}`),
			[]lease.Lease{
				record(t, 2, "10.5.2.0-24", `{"PublicIP":"192.168.64.2","BackendType":"extension"}`),
				record(t, 4, "10.5.4.0-24", dualPeer),
			},
			"route 10.5.2.0/24 via 192.168.64.2 dev eth0 proto 3\n"},
	})
}

// keyText returns the public key that is one letter 32 times.
func keyText(letter string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32)))
}

// wireguardRecord returns the attributes of a node with such a public key.
func wireguardRecord(addr, letter string) string {
	return `{"PublicIP":"` + addr + `","BackendType":"wireguard","BackendData":{"PublicKey":"` + keyText(letter) + `"}}`
}

func sorted(text string) []string { return slices.Sorted(strings.Lines(text)) }

// TestUnknownBackend checks that the oracle refuses a backend whose objects it does not
// know: an empty demand would let every host pass.
func TestUnknownBackend(t *testing.T) {
	own := record(t, 1, "10.5.1.0-24", dualOwn)
	_, err := Demanded(host(`{"Network":"10.5.0.0/16","Backend":{"Type":"foo"}}`), own, nil)
	if want := `backend "foo": the oracle does not know its objects`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestPeersThatAreNotServed(t *testing.T) {
	h := host(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	own := record(t, 1, "10.5.1.0-24", dualOwn)
	older := record(t, 2, "10.5.2.0-24", dualPeer)
	for name, bad := range map[string]lease.Lease{
		"outside the Network":      record(t, 3, "10.6.3.0-24", strings.Replace(dualPeer, "00:02", "00:03", 1)),
		"overlaps an older record": record(t, 3, "10.5.2.128-25", strings.Replace(dualPeer, "00:02", "00:03", 1)),
		"overlaps our subnet":      record(t, 3, "10.5.0.0-20", strings.Replace(dualPeer, "00:02", "00:03", 1)),
		"our address":              record(t, 3, "10.5.3.0-24", strings.Replace(dualOwn, "00:01", "00:03", 1)),
		"a multicast address":      record(t, 3, "10.5.3.0-24", strings.Replace(dualPeer, "192.168.64.2", "224.0.0.7", 1)),
		"a multicast MAC": record(t, 3, "10.5.3.0-24",
			strings.Replace(dualPeer, "02:00:00:00:00:02", "01:00:00:00:00:03", 1)),
		"our MAC":                  record(t, 3, "10.5.3.0-24", strings.Replace(dualPeer, "00:02", "00:01", 1)),
		"an older peer's MAC":      record(t, 3, "10.5.3.0-24", strings.Replace(dualPeer, "64.2", "64.3", 1)),
		"no data":                  record(t, 3, "10.5.3.0-24", `{"PublicIP":"192.168.64.3","BackendType":"vxlan"}`),
		"a record of another type": record(t, 3, "10.5.3.0-24", `{"PublicIP":"192.168.64.3","BackendType":"host-gw"}`),
	} {
		t.Run(name, func(t *testing.T) {
			want := demanded(t, h, own, older).want.Dump()
			if diff := cmp.Diff(want, demanded(t, h, own, older, bad).want.Dump()); diff != "" {
				t.Errorf("the record changes what is demanded (-without +with):\n%s", diff)
			}
		})
	}
}

// TestTwoRecordsOfOneHost checks that a host's reservation and its lease for the same
// subnet demand one peer, with the device of the record that was written last.
func TestTwoRecordsOfOneHost(t *testing.T) {
	h := host(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	own := record(t, 1, "10.5.1.0-24", dualOwn)
	old := record(t, 2, "10.5.2.0-24&fd00:10:5:2::-64", dualPeer)
	now := record(t, 3, "10.5.2.0-24", strings.Replace(dualPeer, "00:02", "00:03", 1))
	now.ModRevision = 4
	want := demanded(t, h, own, now).want.Dump()
	if diff := cmp.Diff(want, demanded(t, h, own, old, now).want.Dump()); diff != "" {
		t.Errorf("demanded with both records (-lease +both):\n%s", diff)
	}
}

// TestMissingRouteDuringAChange checks that a peer of udp has a way: one route for all, or one of its own, or the
// kernel's.
func TestMissingRouteDuringAChange(t *testing.T) {
	h := host(`{"Network":"10.5.0.0/16","Backend":{"Type":"udp"}}`)
	h.Changed, h.Changing = true, true
	h.Blackhole = false
	d := demanded(t, h, record(t, 1, "10.5.1.0-24", dualOwn),
		record(t, 2, "10.5.2.0-24", `{"PublicIP":"192.168.64.2"}`),
		record(t, 3, "10.5.3.0-24", `{"PublicIP":"192.168.64.3","BackendType":"vxlan"}`))
	bare := d.want.Clone()
	bare.Routes.DeleteFunc(func(dataplane.RouteKey, dataplane.Route) bool { return true })
	const missing = "missing a route to 10.5.2.0/24"
	for route, want := range map[string][]string{
		"": {missing},
		"route 10.5.0.0/16 dev flannel0 metric 1\n":             nil,
		"route 10.5.2.0/24 dev flannel0\n":                      nil,
		"route 10.5.2.0/24 via 10.5.2.0 dev flannel.1 onlink\n": nil,
		"route 10.5.2.0/24 dev cni0 scope 253 proto 2\n":        nil,
		"route 10.5.2.0/24 via 192.168.64.9 dev eth0 proto 4\n": {missing},
		"route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink\n": {missing},
		"route 10.5.2.0/25 via 10.5.2.0 dev flannel.1 onlink\n": {missing},
	} {
		have, err := dataplane.ParseDump(bare.Dump() + route)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, d.Missing(have), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("missing with %q (-want +got):\n%s", route, diff)
		}
	}
}

// TestBarredPeer checks that a host need not have what its kernel refuses: an IPv6 peer whose gateway is behind the
// bridge.
func TestBarredPeer(t *testing.T) {
	d := demanded(t, host(dualConfig), record(t, 1, "10.5.1.0-24&fd00:10:5:1::-64", dualOwn),
		record(t, 2, "10.5.2.0-24&fd00:10:5:2::-64", dualPeer))
	without := d.want.Clone()
	without.Routes.DeleteFunc(func(_ dataplane.RouteKey, r dataplane.Route) bool { return r.OnLink && r.Via.Is6() })
	without.Neighs.DeleteFunc(func(k dataplane.NeighKey, _ dataplane.Neigh) bool { return k.IP.Is6() })
	without.FDB.DeleteFunc(func(k dataplane.FDBKey, _ dataplane.FDBEntry) bool { return k.Link == "flannel-v6.1" })
	for route, want := range map[string]int{
		"": 3,
		"route fd00:10:5:2::/64 dev cni0 metric 256 proto 2\n":         0,
		"route fd00:10:5:2::/64 dev cni0 metric 256 proto 4\n":         3,
		"route fd00:10:5:3::/64 dev cni0 metric 256 proto 2\n":         3,
		"route fd00:10:5:2::/64 dev flannel-v6.1 metric 256 proto 2\n": 3,
	} {
		have, err := dataplane.ParseDump(without.Dump() + route)
		if err != nil {
			t.Fatal(err)
		}
		if missing := d.Missing(have); len(missing) != want {
			t.Errorf("with %q %d objects are missing, want %d: %q", route, len(missing), want, missing)
		}
	}
}

func TestFirewall(t *testing.T) {
	own := record(t, 1, "10.5.1.0-24", dualOwn)
	const chains = `chain FLAVOUR ipv4 forward jump placed { from 10.5.0.0/16 accept; to 10.5.0.0/16 accept }
chain FLAVOUR ipv4 postrouting jump placed { mark 0x4000/0x4000 return; from 10.5.1.0/24 to 10.5.0.0/16 return; ` +
		`from 10.5.0.0/16 to 10.5.1.0/24 return; from !10.5.0.0/16 to 10.5.1.0/24 return; ` +
		`from 10.5.0.0/16 to !224.0.0.0/4 MASQ; from !10.5.0.0/16 to 10.5.0.0/16 MASQ }
`
	iptables := host(`{"Network":"10.5.0.0/16","Backend":{"Type":"alloc"}}`)
	nftables := host(`{"Network":"10.5.0.0/16","EnableNFTables":true,"Backend":{"Type":"alloc"}}`)
	none, old := iptables, iptables
	none.Tools[cidr.V4].IPTables = driver.Tool{}
	old.Tools[cidr.V4].IPTables.RandomFully = false
	for name, c := range map[string]struct {
		host             Host
		flavour, verdict string
	}{
		"iptables":             {iptables, "iptables", "masquerade-random"},
		"nftables":             {nftables, "nftables", "masquerade-random"},
		"without iptables":     {none, "nftables", "masquerade-random"},
		"without random ports": {old, "iptables", "masquerade"},
	} {
		t.Run(name, func(t *testing.T) {
			c.host.Blackhole = false
			want := strings.NewReplacer("FLAVOUR", c.flavour, "MASQ", c.verdict).Replace(chains)
			if diff := cmp.Diff(want, demanded(t, c.host, own).want.Dump()); diff != "" {
				t.Errorf("demanded (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStateLost has a device of a former run. Without the state file a node knows it by an
// address in its network.
func TestStateLost(t *testing.T) {
	const link, addr = "link flannel0 type tun mtu 1472 up", "addr 10.5.1.0/32 dev flannel0"
	for _, c := range []struct {
		lost bool
		have string
		want []string
	}{
		{false, link + "\n", []string{"left over " + link}},
		{true, link + "\n", nil},
		{true, link + "\n" + addr + "\n", []string{"left over " + addr, "left over " + link}},
	} {
		h := host(dualConfig)
		h.StateLost = c.lost
		d := demanded(t, h, record(t, 1, "10.5.1.0-24&fd00:10:5:1::-64", dualOwn))
		have, err := dataplane.ParseDump(d.want.Dump() + c.have)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, d.Short(have, d.want)); diff != "" {
			t.Errorf("state file lost %t, %q (-want +got):\n%s", c.lost, c.have, diff)
		}
	}
}

// TestShort checks that every missing object is named, and every object left over.
func TestShort(t *testing.T) {
	d := demanded(t, host(dualConfig), record(t, 1, "10.5.1.0-24&fd00:10:5:1::-64", dualOwn),
		record(t, 2, "10.5.2.0-24&fd00:10:5:2::-64", dualPeer))
	read := func(text string) *dataplane.State {
		s, err := dataplane.ParseDump(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	check := func(text string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, d.Short(read(text), d.want)); diff != "" {
			t.Errorf("short (-want +got):\n%s", diff)
		}
	}
	check(dualWant)
	for line := range strings.Lines(dualWant) {
		check(strings.Replace(dualWant, line, "", 1), "missing "+strings.TrimSpace(line))
	}
	for _, line := range []string{
		"link flannel0 type tun mtu 1472 up",
		"addr 10.5.9.0/32 dev flannel.1",
		"neigh 10.5.9.0 lladdr 02:00:00:00:00:09 dev flannel.1",
		"fdb 02:00:00:00:00:09 dst 192.168.64.9 dev flannel.1",
		"route 10.5.9.0/24 via 192.168.64.9 dev eth0",
		"route 10.5.9.0/24 dev flannel.1 proto 3",
	} {
		check(dualWant+line+"\n", "left over "+line)
	}
	check(dualWant + "addr 198.51.100.7/32 dev flannel.1\nroute 10.5.9.0/24 via 192.168.64.9 dev eth0 proto 4\n")
	const mtu = "link flannel.1 type vxlan mtu 1450"
	wrong := strings.Replace(dualWant, mtu, "link flannel.1 type vxlan mtu 1400", 1)
	rest := " mac 02:00:00:00:00:01 up id 1 dev eth0 local 192.168.64.1 port 8472"
	check(wrong, "wrong link flannel.1 type vxlan mtu 1400"+rest+", want "+mtu+rest)
	chains := read("chain iptables ipv4 forward jump placed { from 10.5.0.0/16 accept }\n")
	if short := d.Short(read(dualWant), chains); len(short) != 4 {
		t.Errorf("of four chains, one is wrong and three are missing, but it says %q", short)
	}
}

// vxlan has left flannel.1. It is the operator's only if a command of the backend extension has this name as a word.
func TestNamesOfTheOperator(t *testing.T) {
	for backend, ours := range map[string]bool{
		`{"Type":"extension","PostStartupCommand":"true"}`:                               true,
		`{"Type":"extension","PostStartupCommand":"ip link add flannel.10 type vxlan"}`:  true,
		`{"Type":"extension","PostStartupCommand":"ip link add flannel.1-x type vxlan"}`: true,
		`{"Type":"extension","Comment":"flannel.1"}`:                                     true,
		`{"Type":"host-gw","PostStartupCommand":"ip link add flannel.1 type vxlan"}`:     true,
		`{"Type":"extension","PreStartupCommand":"cat /sys/class/net/flannel.1/mtu"}`:    false,
		`{"Type":"extension","PostStartupCommand":"ip link add flannel.1 type vxlan"}`:   false,
		`{"Type":"extension","SubnetAddCommand":"DEV=flannel.1; ip route add"}`:          false,
		`{"Type":"extension","SubnetRemoveCommand":"ip route del dev \"flannel.1\""}`:    false,
		`{"Type":"extension","ShutdownCommand":"ip link del flannel.1"}`:                 false,
	} {
		h := host(`{"Network":"10.5.0.0/16","Backend":` + backend + `}`)
		h.Formerly = []string{`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`}
		d, err := Demanded(h, lease.Lease{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d.devices["flannel.1"] != ours {
			t.Errorf("with %s, flannel.1 may be the daemon's: %t, want %t", backend, d.devices["flannel.1"], ours)
		}
	}
}
