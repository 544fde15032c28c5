package lease

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	someV4 = netip.MustParseAddr("192.168.64.3")
	someV6 = netip.MustParseAddr("fd00:a::3")
)

// wire holds a value of each backend as upstream writes it (interop 3.3).
var wire = []struct {
	name  string
	attrs Attrs
	value string
}{
	{
		"vxlan",
		Attrs{PublicIP: someV4, BackendType: "vxlan",
			BackendData: json.RawMessage(`{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}`)},
		`{"PublicIP":"192.168.64.3","PublicIPv6":null,"BackendType":"vxlan",` +
			`"BackendData":{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}}`,
	},
	{
		"vxlan dual",
		Attrs{
			PublicIP: someV4, PublicIPv6: someV6, BackendType: "vxlan",
			BackendData:   json.RawMessage(`{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}`),
			BackendV6Data: json.RawMessage(`{"VNI":1,"VtepMAC":"3e:0b:11:22:33:44"}`),
		},
		`{"PublicIP":"192.168.64.3","PublicIPv6":"fd00:a::3","BackendType":"vxlan",` +
			`"BackendData":{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"},"BackendV6Data":{"VNI":1,"VtepMAC":"3e:0b:11:22:33:44"}}`,
	},
	{
		"vxlan IPv6 only",
		Attrs{PublicIPv6: someV6, BackendType: "vxlan",
			BackendV6Data: json.RawMessage(`{"VNI":1,"VtepMAC":"3e:0b:11:22:33:44"}`)},
		`{"PublicIP":"0.0.0.0","PublicIPv6":"fd00:a::3","BackendType":"vxlan",` +
			`"BackendV6Data":{"VNI":1,"VtepMAC":"3e:0b:11:22:33:44"}}`,
	},
	{
		"host-gw, from vxlan",
		Attrs{PublicIP: someV4, BackendType: "host-gw", Ways: Ways{Former: []FormerWay{{
			Backend: json.RawMessage(`{"Type":"vxlan"}`), Data: json.RawMessage(`{"VNI":1}`),
		}}}},
		`{"PublicIP":"192.168.64.3","PublicIPv6":null,"BackendType":"host-gw","BackendWays":` +
			`{"Former":[{"Backend":{"Type":"vxlan"},"BackendData":{"VNI":1}}]}}`,
	},
	{
		"host-gw",
		Attrs{PublicIP: someV4, BackendType: "host-gw"},
		`{"PublicIP":"192.168.64.3","PublicIPv6":null,"BackendType":"host-gw"}`,
	},
	{
		"host-gw, created at a server",
		Attrs{PublicIP: someV4, BackendType: "host-gw", Creator: "node-1"},
		`{"PublicIP":"192.168.64.3","PublicIPv6":null,"BackendType":"host-gw","Creator":"node-1"}`,
	},
	{
		"ipip",
		Attrs{PublicIP: someV4, BackendType: "ipip"},
		`{"PublicIP":"192.168.64.3","PublicIPv6":null,"BackendType":"ipip"}`,
	},
	{
		"wireguard",
		Attrs{PublicIP: someV4, BackendType: "wireguard", BackendData: json.RawMessage(`{"PublicKey":"a+/=","Port":51820}`)},
		`{"PublicIP":"192.168.64.3","PublicIPv6":null,"BackendType":"wireguard",` +
			`"BackendData":{"PublicKey":"a+/=","Port":51820}}`,
	},
	{
		"extension",
		Attrs{PublicIP: someV4, BackendType: "extension", BackendData: json.RawMessage(`"\u003ca\u003e \"b\"\n"`)},
		`{"PublicIP":"192.168.64.3","PublicIPv6":null,"BackendType":"extension","BackendData":"\u003ca\u003e \"b\"\n"}`,
	},
	{
		"udp",
		Attrs{PublicIP: someV4},
		`{"PublicIP":"192.168.64.3","PublicIPv6":null}`,
	},
}

func TestWireForm(t *testing.T) {
	for _, c := range wire {
		t.Run(c.name, func(t *testing.T) {
			if got := string(EncodeAttrs(c.attrs)); got != c.value {
				t.Errorf("EncodeAttrs\n got %s\nwant %s", got, c.value)
			}
			got, err := DecodeAttrs([]byte(c.value))
			if err != nil {
				t.Fatal(err)
			}
			if !got.Equal(c.attrs) {
				t.Errorf("DecodeAttrs: got %+v, want %+v", got, c.attrs)
			}
		})
	}
}

func TestDecodeOlderAndForeignForms(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        Attrs
	}{
		{"no PublicIPv6, as before v0.15", `{"PublicIP":"192.168.64.3"}`, Attrs{PublicIP: someV4}},
		{
			"vxlan without VNI, as before v0.14",
			`{"PublicIP":"192.168.64.3","BackendType":"vxlan","BackendData":{"VtepMAC":"c6:d2:32:6f:8f:44"}}`,
			Attrs{PublicIP: someV4, BackendType: "vxlan", BackendData: json.RawMessage(`{"VtepMAC":"c6:d2:32:6f:8f:44"}`)},
		},
		{"null data", `{"PublicIP":"192.168.64.3","BackendData":null,"BackendV6Data":null}`, Attrs{PublicIP: someV4}},
		{"null type", `{"PublicIP":"192.168.64.3","BackendType":null}`, Attrs{PublicIP: someV4}},
		{"blanks", " {\n\t\"PublicIP\" : \"192.168.64.3\", \"BackendData\": { \"a\" : [ 1 ] } } ",
			Attrs{PublicIP: someV4, BackendData: json.RawMessage(`{"a":[1]}`)}},
		{"unescaped data", `{"PublicIP":"192.168.64.3","BackendData":"<a>"}`,
			Attrs{PublicIP: someV4, BackendData: json.RawMessage(`"\u003ca\u003e"`)}},
		{"other order", `{"BackendType":"ipip","PublicIP":"192.168.64.3"}`, Attrs{PublicIP: someV4, BackendType: "ipip"}},
		{"other case", `{"publicip":"192.168.64.3","backendtype":"VXLAN"}`, Attrs{PublicIP: someV4, BackendType: "vxlan"}},
		{"unknown member", `{"PublicIP":"192.168.64.3","Colour":"green"}`, Attrs{PublicIP: someV4}},
		{"all-zero IPv6", `{"PublicIP":"192.168.64.3","PublicIPv6":"::"}`, Attrs{PublicIP: someV4}},
		{"no address at all", `{"PublicIP":"0.0.0.0"}`, Attrs{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeAttrs([]byte(c.value))
			if err != nil {
				t.Fatal(err)
			}
			if !got.Equal(c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	long := `{"PublicIP":"` + strings.Repeat("1", maxValue) + `"}`
	for _, c := range []struct{ value, want string }{
		{"", "lease value ``: not a JSON object"},
		{"null", "lease value `null`: not a JSON object"},
		{"[]", "lease value `[]`: not a JSON object"},
		{"garbage", "lease value `garbage`: not a JSON object"},
		{`{"PublicIP":"1.2.3.4"} x`, "lease value `{\"PublicIP\":\"1.2.3.4\"} x`: not a JSON object"},
		{"\xff\x00", `lease value "\xff\x00": not a JSON object`},
		{strings.Repeat("x", 100), "lease value `" + strings.Repeat("x", 64) + "`...: not a JSON object"},
		{long, "lease value: 65551 bytes long, more than 65536"},
		{"{}", "lease value `{}`: PublicIP is missing"},
		{`{"PublicIP":null}`, "lease value: PublicIP `null`: want an IPv4 address"},
		{`{"PublicIP":3}`, "lease value: PublicIP `3`: want an IPv4 address"},
		{`{"PublicIP":"1.2.3"}`, "lease value: PublicIP `\"1.2.3\"`: want an IPv4 address"},
		{`{"PublicIP":"fd00::1"}`, "lease value: PublicIP `\"fd00::1\"`: want an IPv4 address"},
		{`{"PublicIP":"::ffff:1.2.3.4"}`, "lease value: PublicIP `\"::ffff:1.2.3.4\"`: want an IPv4 address"},
		{`{"PublicIP":"1.2.3.4","PublicIPv6":["fd00::1"]}`,
			"lease value: PublicIPv6 `[\"fd00::1\"]`: want an IPv6 address or null"},
		{`{"PublicIP":"1.2.3.4","PublicIPv6":"1.2.3.4"}`,
			"lease value: PublicIPv6 `\"1.2.3.4\"`: want an IPv6 address or null"},
		{`{"PublicIP":"1.2.3.4","PublicIPv6":"fe80::1%eth0"}`,
			"lease value: PublicIPv6 `\"fe80::1%eth0\"`: want an IPv6 address or null"},
		{`{"PublicIP":"1.2.3.4","PublicIPv6":"::ffff:1.2.3.4"}`,
			"lease value: PublicIPv6 `\"::ffff:1.2.3.4\"`: want an IPv6 address or null"},
		{`{"PublicIP":"1.2.3.4","BackendType":{}}`, "lease value: BackendType `{}`: want a string"},
	} {
		if _, err := DecodeAttrs([]byte(c.value)); err == nil || err.Error() != c.want {
			t.Errorf("DecodeAttrs(%.80q)\n got %v\nwant %s", c.value, err, c.want)
		}
	}
}

func TestEncodeRefusesBrokenData(t *testing.T) {
	defer func() {
		if got, want := recover(), "encoding a lease: BackendData `{` is not JSON"; got != want {
			t.Errorf("got panic %v, want %v", got, want)
		}
	}()
	EncodeAttrs(Attrs{BackendData: json.RawMessage("{")})
}

func TestEqual(t *testing.T) {
	for i, a := range wire {
		for j, b := range wire {
			if got := a.attrs.Equal(b.attrs); got != (i == j) {
				t.Errorf("%s equals %s: %v", a.name, b.name, got)
			}
		}
	}
	if !(Attrs{BackendData: json.RawMessage{}}).Equal(Attrs{}) {
		t.Error("empty data differs from none")
	}
}

func FuzzDecodeAttrs(f *testing.F) {
	for _, c := range wire {
		f.Add([]byte(c.value))
	}
	f.Add([]byte(`{"PublicIP":"0.0.0.0","BackendType":"\ud800","BackendData":null}`))
	f.Add([]byte(`{"PublicIP":"1.2.3.4","BackendWays":{"Present":{"Type":"udp","Port":1},` +
		`"Former":[{"Backend":{"Type":"vxlan"},"BackendData":{"VNI":1},"Unused":true}]}}`))
	f.Add([]byte(`{"PublicIP":"1.2.3.4","BackendWays":{"Present":null,"Former":[{"Backend":"<&>"},{}]}}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		a, err := DecodeAttrs(value)
		if err != nil {
			return
		}
		text := EncodeAttrs(a)
		if !json.Valid(text) {
			t.Fatalf("EncodeAttrs wrote what is not JSON: %s", text)
		}
		again, err := DecodeAttrs(text)
		if len(text) > maxValue {
			return // the values filled in made it too long
		}
		if err != nil || !again.Equal(a) || !bytes.Equal(EncodeAttrs(again), text) {
			t.Fatalf("does not read back: %v\n%s", cmp.Diff(string(text), string(EncodeAttrs(again))), err)
		}
	})
}
