package dataplane

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const everyKind = `link flannel-v6.1 type vxlan mtu 1430 up id 1 local fd00::3 port 8472 learning gbp other ttl=1,df=1
link flannel-wg type wireguard mtu 1420 up port 51820 key kQ0j1b6jJbGkOTqCOvvgdo3uBVeLCfwcFPEWUqDHhkE=
link flannel-wg-v6 type wireguard mtu 1420 userspace
link flannel.1 type vxlan mtu 1450 mac c6:d2:32:6f:8f:44 up id 1 dev eth0 local 192.168.64.3 port 8472
link flannel.ipip type ipip mtu 1480 up dev eth0 local 192.168.64.3 remote 192.168.64.4 ttl 9 pmtudisc
link flannel0 type tun mtu 1472 up master br0 protodown was tun0
addr 10.5.1.0/32 dev flannel.1
sysctl net/ipv6/conf/flannel.1/accept_ra = 0 dev flannel.1
proxy flannel0 local 192.168.64.3:8285 subnet 10.5.1.0/24 mtu 1472 offload auto
peer 10.5.4.0/24 to 192.168.64.5 dev flannel0
wgpeer AgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fICE= dev flannel-wg-v6
` +
	"wgpeer b2hO4QLmTcEv8PLDtjUHY0FMDYyHTjqFk5BlOVBMXnY= " +
	"endpoint 192.168.64.4:51820 others 192.168.64.5:51820,[fd00::5]:1 " +
	"allowed 10.5.3.0/24,fd00::/64,10.5.4.0/24,fd01::/64 " +
	"keepalive 25 psk psk-1a2b3c4d dev flannel-wg" + `
neigh 10.5.3.0 lladdr c6:d2:32:6f:8f:45 dev flannel.1
fdb c6:d2:32:6f:8f:45 dst 192.168.64.4 dev flannel.1
nexthop 10.5.6.0 via 10.5.6.0 dev flannel.1 onlink
nexthop 10.5.7.0 other blackhole
route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink
route 10.5.4.0/24 via 192.168.64.9 dev eth0 metric 20 proto 3
route 10.5.6.0/24 proto 3 other multipath
route 10.5.7.0/24 nhid 10.5.7.0 via 10.5.7.0 dev flannel.1 onlink
route fd00:5::/64 blackhole metric 7
route fd00::/64 dev flannel-v6.1 scope 253
chain iptables ipv4 postrouting jump moved { to 10.5.1.0/24 return } other "-p tcp\n{ -j } other"
chain nftables ipv6 forward jump missing { }
policy fwd 10.5.3.0/24 to 10.5.1.0/24 esp 192.168.64.4 to 192.168.64.3 reqid 7 priority 0 other transport
policy out 10.5.0.0/16 to 10.5.0.0/16 block priority 102
policy out 10.5.1.0/24 to 10.5.1.0/24 allow priority 101
policy out 10.5.1.0/24 to 10.5.3.0/24 esp 192.168.64.3 to 192.168.64.4 reqid 11 priority 0
ike charon
shared-key 192.168.64.4 psk-1f2e3d4c
former-key 192.168.64.3 to 192.168.64.4
conn 192.168.64.3-10.5.1.0/24-10.5.3.0/24-192.168.64.4 esp aes128gcm16-sha256-prfsha256-ecp256 encap
conn 192.168.64.3-10.5.1.0/24-10.5.4.0/24-192.168.64.5 esp aes128gcm16-sha256-prfsha256-ecp256 other version
tunnel 192.168.64.3-10.5.1.0/24-10.5.3.0/24-192.168.64.4
command peer 10.5.3.0/24 run "add $SUBNET" undo "a \"b\"" env "A=1 B=2" input "\x00\xff; rm\n" limit 30s ` +
	`every 1m0s round 7 on "eth0 192.168.64.3" stale
command pre-startup limit 1s failed output "c6:d2:32:6f:8f:44"
cloud-route 10.5.1.0/24 table "rtb-1" id "flannel-10-5-1-0-24" to "a \"b\"" self pending
cloud-route 10.5.1.0/24 table "rtb-2" to "vpc local" provided
cloud-route 10.5.3.0/24 broken
`

func TestDumpReadsBack(t *testing.T) {
	s, err := ParseDump(everyKind)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Dump(); got != everyKind {
		t.Errorf("dump of what was parsed differs (-want +got):\n%s", cmp.Diff(everyKind, got))
	}
	again, err := ParseDump(s.Dump())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(s, again, cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}, netip.Prefix{})); d != "" {
		t.Errorf("second parse differs:\n%s", d)
	}
}

// TestEveryFieldHasText fails for a field of an object that no line of everyKind sets.
// With TestDumpReadsBack it holds that printer and parser of a kind know the same words.
func TestEveryFieldHasText(t *testing.T) {
	s, err := ParseDump(everyKind)
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{} // by path: some object has a value there
	for _, k := range kinds {
		k.each(s, func(o Object) { markFields(set, reflect.ValueOf(o)) })
	}
	for path, has := range set {
		if !has {
			t.Errorf("no line of everyKind sets %s", path)
		}
	}
}

// markFields notes for each exported field of a struct whether it has a value. The
// structs of this package within it count by their own fields.
func markFields(set map[string]bool, v reflect.Value) {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		if value.Kind() == reflect.Interface && !value.IsNil() {
			value = value.Elem()
		}
		switch path := v.Type().Name() + "." + field.Name; {
		case !field.IsExported():
			continue
		case value.Kind() == reflect.Struct && value.Type().PkgPath() == v.Type().PkgPath():
			markFields(set, value)
		default:
			set[path] = set[path] || !value.IsZero()
		}
	}
}

const aKey = "AgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fICE="

func TestParseObjectErrors(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", `object "": unknown kind ""`},
		{"tree oak", `object "tree oak": unknown kind "tree"`},
		{"addr 10.5.1.0/32", `object "addr 10.5.1.0/32": line ends early`},
		{"addr 10.5.1.0/32 on x", `object "addr 10.5.1.0/32 on x": want "dev", have "on"`},
		{"addr 10.5.1.0/32 dev x y", `object "addr 10.5.1.0/32 dev x y": unexpected "y"`},
		{"neigh 10.5.3.0 lladdr zz dev x",
			`object "neigh 10.5.3.0 lladdr zz dev x": MAC "zz": want six hex octets separated by colons`},
		{"proxy flannel0 local 192.168.64.3", `object "proxy flannel0 local 192.168.64.3": not an ip:port`},
		{"proxy flannel0 mtu 1472 tier fast", `object "proxy flannel0 mtu 1472 tier fast": unexpected "tier"`},
		{"peer 10.5.3.0/24 via 192.168.64.4 dev flannel0",
			`object "peer 10.5.3.0/24 via 192.168.64.4 dev flannel0": want "to", have "via"`},
		{"wgpeer AAA= dev x", `object "wgpeer AAA= dev x": public key "AAA=": want 32 bytes in base64, not all zero`},
		{"wgpeer " + aKey, `object "wgpeer ` + aKey + `": no dev`},
		{"wgpeer " + aKey + " allowed 10.0.0.0/8,10.0.0.0/8 dev x", `object "wgpeer ` + aKey +
			` allowed 10.0.0.0/8,10.0.0.0/8 dev x": 10.0.0.0/8 is an allowed IP twice`},
		{"wgpeer " + aKey + " psk ../x dev x", `object "wgpeer ` + aKey +
			` psk ../x dev x": "../x" is not the name of a secret`},
		{"link x type wireguard mtu 1 key AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
			`object "link x type wireguard mtu 1 key AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=": ` +
				`public key "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=": want 32 bytes in base64, not all zero`},
		{"route 10.5.3.0/24 nexthop", `object "route 10.5.3.0/24 nexthop": unexpected "nexthop"`},
		{"policy up 10.5.1.0/24 to 10.5.3.0/24 block priority 1",
			`object "policy up 10.5.1.0/24 to 10.5.3.0/24 block priority 1": unknown direction "up"`},
		{"policy in 10.5.1.0/24 to 10.5.3.0/24 ah priority 1",
			`object "policy in 10.5.1.0/24 to 10.5.3.0/24 ah priority 1": unknown action "ah"`},
		{"policy in 10.5.1.0/24 via 10.5.3.0/24 allow priority 1",
			`object "policy in 10.5.1.0/24 via 10.5.3.0/24 allow priority 1": want "to", have "via"`},
	} {
		if _, err := ParseObject(c.line); err == nil || err.Error() != c.want {
			t.Errorf("ParseObject(%q): error %v, want %s", c.line, err, c.want)
		}
	}
}

func FuzzParseDump(f *testing.F) {
	f.Add(everyKind)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseDump(text)
		if err != nil {
			return
		}
		again, err := ParseDump(s.Dump())
		if err != nil || again.Dump() != s.Dump() {
			t.Fatalf("dump does not read back: %v\n%s", err, s.Dump())
		}
	})
}
