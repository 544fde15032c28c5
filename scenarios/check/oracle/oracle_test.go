package oracle

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// TestUnknownBackend checks that the oracle refuses a backend whose objects it does not
// know: an empty demand would let every host pass.
func TestUnknownBackend(t *testing.T) {
	own := record(t, 1, "10.5.1.0-24", dualOwn)
	_, err := Demanded(host(`{"Network":"10.5.0.0/16","Backend":{"Type":"foo"}}`), own, nil)
	if want := `backend "foo": the oracle does not know its objects`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
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
