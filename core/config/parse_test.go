package config

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flanneld/flannel/core/cidr"
)

var byValue = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

func ipRange(network string, length int, first, last string) Range {
	return Range{netip.MustParsePrefix(network), length, netip.MustParseAddr(first), netip.MustParseAddr(last)}
}

// TestDerivation holds the check values of interop 2.1 and the edges around them.
func TestDerivation(t *testing.T) {
	for _, c := range []struct {
		members string
		want    Range
	}{
		{`"Network":"10.0.0.0/8"`, ipRange("10.0.0.0/8", 24, "10.0.1.0", "10.255.255.0")},
		{`"Network":"10.5.3.0/16"`, ipRange("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0")},
		{`"Network":"10.5.0.0/22"`, ipRange("10.5.0.0/22", 24, "10.5.1.0", "10.5.3.0")},
		{`"Network":"10.5.0.0/23"`, ipRange("10.5.0.0/23", 25, "10.5.0.128", "10.5.1.128")},
		{`"Network":"10.5.0.0/28"`, ipRange("10.5.0.0/28", 30, "10.5.0.4", "10.5.0.12")},
		{`"Network":"10.5.0.0/16","SubnetLen":26`, ipRange("10.5.0.0/16", 26, "10.5.0.64", "10.5.255.192")},
		{`"Network":"10.5.0.0/16","SubnetLen":18`, ipRange("10.5.0.0/16", 18, "10.5.64.0", "10.5.192.0")},
		{`"Network":"10.5.0.0/16","SubnetLen":30`, ipRange("10.5.0.0/16", 30, "10.5.0.4", "10.5.255.252")},
		{`"Network":"128.0.0.0/1","SubnetLen":3`, ipRange("128.0.0.0/1", 3, "160.0.0.0", "224.0.0.0")},
		{`"Network":"10.5.0.0/16","SubnetMin":"10.5.0.0"`, ipRange("10.5.0.0/16", 24, "10.5.0.0", "10.5.255.0")},
		{`"Network":"10.5.0.0/16","SubnetMax":"10.5.9.0"`, ipRange("10.5.0.0/16", 24, "10.5.1.0", "10.5.9.0")},
		{`"Network":"10.5.0.0/16","SubnetMin":"10.5.7.0","SubnetMax":"10.5.7.0"`,
			ipRange("10.5.0.0/16", 24, "10.5.7.0", "10.5.7.0")},
		{`"IPv6Network":"fd00:1::/48"`, ipRange("fd00:1::/48", 64, "fd00:1:0:1::", "fd00:1:0:ffff::")},
		{`"IPv6Network":"fd00:1::/62"`, ipRange("fd00:1::/62", 64, "fd00:1:0:1::", "fd00:1:0:3::")},
		{`"IPv6Network":"fd00:1::/63"`, ipRange("fd00:1::/63", 65, "fd00:1::8000:0:0:0", "fd00:1:0:1:8000::")},
		{`"IPv6Network":"fd00::/64"`, ipRange("fd00::/64", 66, "fd00::4000:0:0:0", "fd00::c000:0:0:0")},
		{`"IPv6Network":"fd00::/124"`, ipRange("fd00::/124", 126, "fd00::4", "fd00::c")},
		{`"IPv6Network":"fd00::/8","IPv6SubnetLen":126`,
			ipRange("fd00::/8", 126, "fd00::4", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:fffc")},
		{`"IPv6Network":"fd00:1::/48","IPv6SubnetMin":"fd00:1:0:8::","IPv6SubnetMax":"fd00:1:0:f::"`,
			ipRange("fd00:1::/48", 64, "fd00:1:0:8::", "fd00:1:0:f::")},
	} {
		t.Run(c.members, func(t *testing.T) {
			f := cidr.FamilyOf(c.want.Network.Addr())
			n, err := Parse(fmt.Appendf(nil, `{"EnableIPv4":%t,"EnableIPv6":%t,%s}`, f == cidr.V4, f == cidr.V6, c.members))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, n.Of(f), byValue); d != "" {
				t.Errorf("range (-want +got):\n%s", d)
			}
			if n.V4.Enabled() && n.V6.Enabled() {
				t.Error("both families are on")
			}
		})
	}
}

func TestParse(t *testing.T) {
	v4 := ipRange("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0")
	v6 := ipRange("fd00:1::/48", 64, "fd00:1:0:1::", "fd00:1:0:ffff::")
	vxlan := Backend{Type: "vxlan", Options: json.RawMessage(`{"Type":"vxlan"}`)}
	for _, c := range []struct {
		name, text string
		want       Network
	}{
		{"no Backend", `{"Network":"10.5.0.0/16"}`, Network{V4: v4}},
		{"dual", `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:1::/48","Backend":{"Type":"vxlan"}}`,
			Network{V4: v4, V6: v6, Backend: vxlan}},
		{"IPv6 only", `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:1::/48","Backend":{"Type":"vxlan"}}`,
			Network{V6: v6, Backend: vxlan}},
		{"other case", `{"NETWORK":"10.5.0.0/16","enablenftables":true,"backend":{"Type":"vxlan"}}`,
			Network{V4: v4, EnableNFTables: true, Backend: vxlan}},
		{
			"backend in other case, with options", `{"Network":"10.5.0.0/16","Backend":{"type":"VxLAN","VNI":7}}`,
			Network{V4: v4, Backend: Backend{Type: "vxlan", Options: json.RawMessage(`{"type":"VxLAN","VNI":7}`)}},
		},
		{"null is absent", `{"Network":"10.5.0.0/16","EnableIPv4":null,"SubnetLen":null,"SubnetMin":null,"IPv6Network":null}`,
			Network{V4: v4}},
		{"unknown members", `{"Network":"10.5.0.0/16","Colour":{"of":"rain"}}`,
			Network{V4: v4, Warnings: []string{`member "Colour" is unknown and ignored`}}},
		{"IPv6 off but written", `{"Network":"10.5.0.0/16","IPv6Network":"fd00::1/127","IPv6SubnetLen":1}`,
			Network{V4: v4, Off: []netip.Prefix{netip.MustParsePrefix("fd00::/127")}}},
		{"any backend's name", `{"Network":"10.5.0.0/16","Backend":{"Type":"carrier-pigeon"}}`,
			Network{V4: v4, Backend: Backend{Type: "carrier-pigeon", Options: json.RawMessage(`{"Type":"carrier-pigeon"}`)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got, byValue); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

var parseErrors = []struct{ text, want string }{
	{``, `malformed JSON at byte 0: unexpected end of JSON input`},
	{`{"Network":"10.5.0.0/16",}`, `malformed JSON at byte 26: invalid character '}' looking for beginning of object ` +
		`key string`},
	{`{"Network":"10.5.0.0/16"} {}`, `malformed JSON at byte 27: invalid character '{' after top-level value`},
	{`null`, `null: want a JSON object such as {"Network": "10.5.0.0/16"}`},
	{`["10.5.0.0/16"]`, `["10.5.0.0/16"]: want a JSON object such as {"Network": "10.5.0.0/16"}`},

	{`{"EnableIPv4":"yes"}`, `EnableIPv4 "yes": want true or false`},
	{`{"EnableIPv6":1}`, `EnableIPv6 1: want true or false`},
	{`{"EnableNFTables":"on"}`, `EnableNFTables "on": want true or false`},
	{`{"EnableIPv4":false}`, `EnableIPv4 and EnableIPv6 are both false: want at least one of them true`},

	{`{}`, `Network is missing: want a CIDR such as "10.5.0.0/16", or EnableIPv4 false`},
	{`{"Network":"10.5.0.0/16","EnableIPv6":true}`,
		`IPv6Network is missing: want a CIDR such as "fd00:10:5::/48", or EnableIPv6 false`},
	{`{"Network":167772160}`, `Network 167772160: want a CIDR such as "10.5.0.0/16"`},
	{`{"Network":""}`, `Network "": want a CIDR such as "10.5.0.0/16"`},
	{`{"Network":"10.5.0.0"}`, `Network "10.5.0.0": want a CIDR such as "10.5.0.0/16"`},
	{`{"Network":"10.5.0/16"}`, `Network "10.5.0/16": want a CIDR such as "10.5.0.0/16"`},
	{`{"Network":"10.5.0.0/33"}`, `Network "10.5.0.0/33": want a CIDR such as "10.5.0.0/16"`},
	{`{"Network":"fd00::/48"}`, `Network "fd00::/48": want a CIDR such as "10.5.0.0/16"`},
	{`{"Network":"0.0.0.0/0"}`, `Network "0.0.0.0/0": begins at 0.0.0.0: want a CIDR such as "10.5.0.0/16"`},
	{`{"Network":"0.1.2.3/8"}`, `Network "0.1.2.3/8": begins at 0.0.0.0: want a CIDR such as "10.5.0.0/16"`},
	{`{"Network":"10.5.0.0/29"}`, `Network "10.5.0.0/29": too small to be cut into subnets: want a prefix length of ` +
		`at most 28`},
	{`{"Network":"10.5.0.0/29","SubnetLen":30}`,
		`Network "10.5.0.0/29": too small to be cut into subnets: want a prefix length of at most 28`},
	{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/125"}`,
		`IPv6Network "fd00::/125": too small to be cut into subnets: want a prefix length of at most 124`},
	{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"::/16"}`,
		`IPv6Network "::/16": begins at ::: want a CIDR such as "fd00:10:5::/48"`},
	{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"10.5.0.0/16"}`,
		`IPv6Network "10.5.0.0/16": want a CIDR such as "fd00:10:5::/48"`},
	{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"::ffff:10.5.0.0/112"}`,
		`IPv6Network "::ffff:10.5.0.0/112": want a CIDR such as "fd00:10:5::/48"`},
	{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"::f000:0:0/84"}`,
		`IPv6Network "::f000:0:0/84": holds the IPv4-mapped addresses ::ffff:0.0.0.0/96: want a CIDR such as ` +
			`"fd00:10:5::/48"`},
	{`{"Network":"10.5.0.0/16","IPv6Network":"x"}`, `IPv6Network "x": want a CIDR such as "fd00:10:5::/48"`},

	{`{"Network":"10.5.0.0/16","SubnetLen":"24"}`, `SubnetLen "24": want a whole number`},
	{`{"Network":"10.5.0.0/16","SubnetLen":24.5}`, `SubnetLen 24.5: want a whole number`},
	{`{"Network":"10.5.0.0/16","SubnetLen":17}`, `SubnetLen 17: does not fit the Network 10.5.0.0/16: want 18 to 30`},
	{`{"Network":"10.5.0.0/16","SubnetLen":31}`, `SubnetLen 31: does not fit the Network 10.5.0.0/16: want 18 to 30`},
	{`{"Network":"10.5.0.0/16","SubnetLen":0}`, `SubnetLen 0: does not fit the Network 10.5.0.0/16: want 18 to 30`},
	{`{"Network":"10.5.0.0/16","SubnetLen":-1}`, `SubnetLen -1: does not fit the Network 10.5.0.0/16: want 18 to 30`},
	{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/48","IPv6SubnetLen":49}`,
		`IPv6SubnetLen 49: does not fit the IPv6Network fd00::/48: want 50 to 126`},
	{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/48","IPv6SubnetLen":127}`,
		`IPv6SubnetLen 127: does not fit the IPv6Network fd00::/48: want 50 to 126`},

	{`{"Network":"10.5.0.0/16","SubnetMin":5}`, `SubnetMin 5: want an IPv4 address such as "10.5.1.0"`},
	{`{"Network":"10.5.0.0/16","SubnetMin":"10.5.1"}`, `SubnetMin "10.5.1": want an IPv4 address such as "10.5.1.0"`},
	{`{"Network":"10.5.0.0/16","SubnetMax":"fd00::"}`, `SubnetMax "fd00::": want an IPv4 address such as "10.5.1.0"`},
	{`{"Network":"10.5.0.0/16","IPv6SubnetMax":"fd00::%eth0"}`,
		`IPv6SubnetMax "fd00::%eth0": want an IPv6 address such as "fd00:10:5:1::"`},
	{`{"Network":"10.5.0.0/16","SubnetMin":"10.4.255.0"}`, `SubnetMin "10.4.255.0": outside the Network 10.5.0.0/16`},
	{`{"Network":"10.5.0.0/16","SubnetMax":"10.6.0.0"}`, `SubnetMax "10.6.0.0": outside the Network 10.5.0.0/16`},
	{`{"Network":"10.5.0.0/16","SubnetMin":"10.5.1.1"}`,
		`SubnetMin "10.5.1.1": not on the boundary of a /24 subnet: want "10.5.1.0"`},
	{`{"Network":"10.5.0.0/16","SubnetLen":26,"SubnetMax":"10.5.1.32"}`,
		`SubnetMax "10.5.1.32": not on the boundary of a /26 subnet: want "10.5.1.0"`},
	{`{"Network":"10.5.0.0/16","SubnetMin":"10.5.9.0","SubnetMax":"10.5.8.0"}`,
		`SubnetMin "10.5.9.0" is above SubnetMax "10.5.8.0": no subnet lies between them`},
	{`{"Network":"10.5.0.0/16","SubnetMax":"10.5.0.0"}`,
		`SubnetMin "10.5.1.0" is above SubnetMax "10.5.0.0": no subnet lies between them`},
	{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:1::/48","IPv6SubnetMin":"fd00:2::"}`,
		`IPv6SubnetMin "fd00:2::": outside the IPv6Network fd00:1::/48`},
	{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:1::/48","IPv6SubnetMin":"fd00:1:0:1::1"}`,
		`IPv6SubnetMin "fd00:1:0:1::1": not on the boundary of a /64 subnet: want "fd00:1:0:1::"`},

	{`{"Network":"10.5.0.0/16","Backend":null}`,
		`Backend null: unknown backend "": want a Type, such as {"Type": "vxlan"}`},
	{`{"Network":"10.5.0.0/16","Backend":{}}`, `Backend {}: unknown backend "": want a Type, such as {"Type": "vxlan"}`},
	{`{"Network":"10.5.0.0/16","Backend":{"VNI":1}}`,
		`Backend {"VNI":1}: unknown backend "": want a Type, such as {"Type": "vxlan"}`},
	{`{"Network":"10.5.0.0/16","Backend":{"Type":null}}`,
		`Backend {"Type":null}: unknown backend "": want a Type, such as {"Type": "vxlan"}`},
	{`{"Network":"10.5.0.0/16","Backend":{"Type":5}}`, `Backend Type 5: want a string such as "vxlan"`},
	{`{"Network":"10.5.0.0/16","Backend":"vxlan"}`, `Backend "vxlan": want an object such as {"Type": "vxlan"}`},
	{"{\"Network\":\"10.5.0.0/16\",\"Backend\":[\n 1,\n 2]}",
		`Backend [ 1, 2]: want an object such as {"Type": "vxlan"}`},

	{`{"Network":"10.5.0.0/16","Formerly":{"Type":"vxlan"}}`,
		`Formerly {"Type":"vxlan"}: want an array of at most 3 objects such as [{"Type": "vxlan"}]`},
	{`{"Network":"10.5.0.0/16","Formerly":[{},{},{},{}]}`,
		`member Formerly has 4 backends: want an array of at most 3 objects such as [{"Type": "vxlan"}]`},
	{`{"Network":"10.5.0.0/16","Formerly":[{"Type":"udp"},"vxlan"]}`,
		`member Formerly[1]: Backend "vxlan": want an object such as {"Type": "vxlan"}`},
	{`{"Network":"10.5.0.0/16","Formerly":[null]}`,
		`member Formerly[0]: Backend null: unknown backend "": want a Type, such as {"Type": "vxlan"}`},
}

func TestParseErrors(t *testing.T) {
	for _, c := range parseErrors {
		if _, err := Parse([]byte(c.text)); err == nil || err.Error() != c.want {
			t.Errorf("Parse(%s)\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

// An empty list of previous backends is the operator's word, and no list is none.
func TestFormerly(t *testing.T) {
	for text, want := range map[string][]Backend{
		``:                 nil,
		`,"Formerly":null`: nil,
		`,"Formerly":[]`:   {},
		`,"formerly":[{"type":"VXLAN","VNI":7},{"Type":"udp"}]`: {
			{"vxlan", json.RawMessage(`{"type":"VXLAN","VNI":7}`)}, {"udp", json.RawMessage(`{"Type":"udp"}`)}},
	} {
		n, err := Parse([]byte(`{"Network":"10.5.0.0/16"` + text + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, n.Formerly); d != "" || len(n.Warnings) > 0 {
			t.Errorf("%s: warnings %q (-want +got):\n%s", text, n.Warnings, d)
		}
	}
}

// Holds tells the range of the subnets from the rest of the network.
func TestHolds(t *testing.T) {
	const ranged = `{"Network":"10.0.0.0/8","SubnetLen":20,"SubnetMin":"10.10.0.0","SubnetMax":"10.99.0.0"}`
	for _, c := range []struct {
		text, addr string
		parse      func([]byte) (Network, error)
		want       bool
	}{
		{ranged, "10.10.0.1", Parse, true}, {ranged, "10.99.15.255", Parse, true},
		{ranged, "10.9.255.255", Parse, false}, {ranged, "10.99.16.0", Parse, false}, {ranged, "11.0.0.1", Parse, false},
		{ranged, "10.240.0.1", ParseAssigned, true}, {ranged, "11.0.0.1", ParseAssigned, false},
	} {
		n, err := c.parse([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if got := n.V4.Holds(netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%s: %v, want %v", c.addr, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"},"Formerly":[{"Type":"vxlan","VNI":7}]}`))
	f.Add([]byte(`{"Network":"10.5.0.0/16","SubnetLen":26,"SubnetMin":"10.5.1.0","SubnetMax":"10.5.9.0"}`))
	f.Add([]byte(`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:1::/48","IPv6SubnetLen":64,` +
		`"Backend":{"Type":"vxlan"}}`))
	f.Add([]byte(`{"Network":"255.0.0.0/1","EnableIPv6":true,"IPv6Network":"ffff::/0","IPv6SubnetLen":126}`))
	f.Add([]byte(`{"Network":"10.5.0.0/16","Backend":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := Parse(text)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if !n.V4.Enabled() && !n.V6.Enabled() {
			t.Fatalf("no family: %+v", n)
		}
		for _, f := range cidr.Families {
			r := n.Of(f)
			if !r.Enabled() {
				continue
			}
			first, last := netip.PrefixFrom(r.Min, r.SubnetLen), netip.PrefixFrom(r.Max, r.SubnetLen)
			if first != first.Masked() || last != last.Masked() || r.Max.Less(r.Min) ||
				!cidr.Contains(r.Network, first) || !cidr.Contains(r.Network, last) || cidr.FamilyOf(r.Min) != f {
				t.Errorf("%v range does not fit: %+v", f, r)
			}
		}
	})
}

// The members about subnets do not matter where another program assigns them.
func TestParseAssigned(t *testing.T) {
	for text, want := range map[string]string{
		`{"Network":"10.5.3.0/30","SubnetLen":8,"SubnetMin":"1.2.3.4"}`: "10.5.3.0/30",

		`{"Network":"10.5.0.0/16"}`: "10.5.0.0/16",
		`{"Network":"0.0.0.0/0"}`:   `Network "0.0.0.0/0": begins at 0.0.0.0: want a CIDR such as "10.5.0.0/16"`,
		`{"SubnetLen":24}`:          `Network is missing: want a CIDR such as "10.5.0.0/16", or EnableIPv4 false`,

		`{"Network":"10.5.0.0/16","SubnetLen":"x"}`:                              `SubnetLen "x": want a whole number`,
		`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:10:5::/120"}`: "invalid Prefix",
	} {
		n, err := ParseAssigned([]byte(text))
		got := n.V4.Network.String()
		if err != nil {
			got = err.Error()
		}
		if got != want || n.V4.SubnetLen != 0 || n.V4.Min.IsValid() {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
