package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/cidr"
)

// Members keeps the order, duplicates and nulls of the text.
func TestMembers(t *testing.T) {
	b := Backend{Options: json.RawMessage(` {"Type":"vxlan", "MTU": null, "type":  "udp"}`)}
	got, err := b.Members()
	if err != nil {
		t.Fatal(err)
	}
	want := []Member{{"Type", json.RawMessage(`"vxlan"`)}, {"MTU", json.RawMessage("null")},
		{"type", json.RawMessage(`"udp"`)}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("members (-want +got):\n%s", d)
	}
	if got[0].IsNull() || !got[1].IsNull() || got[2].Excerpt() != `"udp"` {
		t.Errorf("null %t %t, excerpt %s", got[0].IsNull(), got[1].IsNull(), got[2].Excerpt())
	}
}

func TestMembersOfNoBackend(t *testing.T) {
	for _, text := range []string{"", "null"} {
		members, err := Backend{Options: json.RawMessage(text)}.Members()
		if len(members) != 0 || err != nil {
			t.Errorf("%q: %v, %v", text, members, err)
		}
	}
}

func TestMembersOfBrokenText(t *testing.T) {
	for text, want := range map[string]string{
		"}":            "Backend }: invalid character '}' looking for beginning of value",
		`{"Type" }`:    `Backend {"Type" }: expected colon after object key`,
		`{"Type":x}`:   `Backend {"Type":x}: invalid character 'x' looking for beginning of value`,
		`{"Type":1 x}`: `Backend {"Type":1 x}: invalid character 'x' after object key:value pair`,
	} {
		members, err := Backend{Options: json.RawMessage(text)}.Members()
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, %v\nwant %s", text, members, err, want)
		}
	}
}

func TestWithDefault(t *testing.T) {
	for text, want := range map[string]string{
		"":                   `{"VNI":1}`,
		"null":               `{"VNI":1}`,
		"{}":                 `{"VNI":1}`,
		" { } ":              `{"VNI":1}`,
		`{"Type":"vxlan"}`:   `{"VNI":1,"Type":"vxlan"}`,
		` { "VNI":7 } `:      `{"VNI":1,"VNI":7 }`,
		`{"a":{"b":{}}}`:     `{"VNI":1,"a":{"b":{}}}`,
		"{\n\"VNI\": 7\n}\n": "{\"VNI\":1,\"VNI\": 7\n}",
	} {
		got := Backend{Type: "vxlan", Options: json.RawMessage(text)}.WithDefault("VNI", "1")
		if string(got.Options) != want || got.Type != "vxlan" || !json.Valid(got.Options) {
			t.Errorf("%q: %s of %s, want %s", text, got.Options, got.Type, want)
		}
	}
}

func TestOnlyOneFamily(t *testing.T) {
	n, err := Parse([]byte(`{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:1::/48"}`))
	if err != nil {
		t.Fatal(err)
	}
	for f, other := range map[cidr.Family]cidr.Family{cidr.V4: cidr.V6, cidr.V6: cidr.V4} {
		only := n.Only(f)
		if only.Of(f) != n.Of(f) || only.Of(other).Enabled() {
			t.Errorf("only %s: %+v", f, only)
		}
	}
	if !n.V4.Enabled() || !n.V6.Enabled() {
		t.Error("the config itself has changed")
	}
}

// Each name that is given twice or more has one warning, whatever its case.
func TestDuplicatesAreNamed(t *testing.T) {
	n, err := Parse([]byte(`{"Network":"10.5.0.0/16","network":"10.6.0.0/16","NETWORK":"10.7.0.0/16",` +
		`"Backend":{"Type":"udp","VNI":1,"vni":2}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`member "network" is given more than once, and only the last value counts`,
		`Backend member "vni" is given more than once, and only the last value counts`,
	}
	if d := cmp.Diff(want, n.Warnings); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
}

func TestExcerptOfTheLongestText(t *testing.T) {
	whole := strings.Repeat("x", 80)
	if got := excerpt([]byte(whole)); got != whole {
		t.Errorf("80 bytes become %s", got)
	}
	if got := excerpt([]byte(whole + "x")); got != whole+"..." {
		t.Errorf("81 bytes become %s", got)
	}
}
