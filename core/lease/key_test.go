package lease

import (
	"net/netip"
	"strings"
	"testing"
)

func key(v4, v6 string) Key {
	var k Key
	if v4 != "" {
		k.V4 = netip.MustParsePrefix(v4)
	}
	if v6 != "" {
		k.V6 = netip.MustParsePrefix(v6)
	}
	return k
}

func TestParseKey(t *testing.T) {
	for _, c := range []struct {
		text string
		want Key
	}{
		{"10.5.34.0-24", key("10.5.34.0/24", "")},
		{"10.5.34.0-24&fd00:10:5:1::-64", key("10.5.34.0/24", "fd00:10:5:1::/64")},
		{"0.0.0.0-0&fd00:10:5:1::-64", key("", "fd00:10:5:1::/64")},
		{"0.0.0.0-8", key("0.0.0.0/8", "")},
		{"10.5.34.0-31", key("10.5.34.0/31", "")},
		{"10.5.34.0-24&fd00::-127", key("10.5.34.0/24", "fd00::/127")},
		{"10.5.34.0-24&::-0", key("10.5.34.0/24", "::/0")},
		{"/coreos.com/network/subnets/10.5.34.0-24", key("10.5.34.0/24", "")},
		{"10.5.34.7-24&fd00:10:5:1::9-64", key("10.5.34.0/24", "fd00:10:5:1::/64")},
		{"10.5.34.0-024", key("10.5.34.0/24", "")},
		{"10.5.34.0-24&fd00:0010:5:1:0:0:0:0-64", key("10.5.34.0/24", "fd00:10:5:1::/64")},
	} {
		got, err := ParseKey(c.text)
		if err != nil || got != c.want {
			t.Errorf("ParseKey(%q) = %v, %v, want %v", c.text, got, err, c.want)
		}
	}
}

func TestParseKeyErrors(t *testing.T) {
	const grammar = ": not a subnet (want A.B.C.D-L or A.B.C.D-L&v6-L)"
	for _, c := range []struct{ text, want string }{
		{"", `key ""` + grammar},
		{"config", `key "config"` + grammar},
		{"10.5.34.0", `key "10.5.34.0"` + grammar},
		{"10.5.34.0/24", `key "10.5.34.0/24"` + grammar},
		{"10.5.34.0-24 ", `key "10.5.34.0-24 "` + grammar},
		{"10.5.34.0-24\n", `key "10.5.34.0-24\n"` + grammar},
		{"10.5.34.0-24&", `key "10.5.34.0-24&"` + grammar},
		{"fd00::-64", `key "fd00::-64"` + grammar},
		{"10.5.34.0-24&FD00::-64", `key "10.5.34.0-24&FD00::-64"` + grammar},
		{"10.5.34.0-24&::ffff:1.2.3.4-120", `key "10.5.34.0-24&::ffff:1.2.3.4-120": prefix length 120 is above 31`},
		{"10.5.34.0--1", `key "10.5.34.0--1"` + grammar},
		{"10.5.34.0-32", `key "10.5.34.0-32": prefix length 32 is above 31`},
		{"10.5.34.0-99999999999999999999",
			`key "10.5.34.0-99999999999999999999": prefix length 99999999999999999999 is above 31`},
		{"10.5.34.0-24&fd00::-128", `key "10.5.34.0-24&fd00::-128": prefix length 128 is above 127`},
		{"0.0.0.0-0", `key "0.0.0.0-0": the whole IPv4 space is no subnet`},
		{"10.5.340.0-24", `key "10.5.340.0-24": ParseAddr("10.5.340.0"): IPv4 field has value >255`},
		{"010.5.34.0-24", `key "010.5.34.0-24": ParseAddr("010.5.34.0"): IPv4 field has octet with leading zero`},
		{"10.5.34.0-24&1:2-64", `key "10.5.34.0-24&1:2-64": ParseAddr("1:2"): address string too short`},
		{"10.5.34.0-24&::ffff:102:304-120",
			`key "10.5.34.0-24&::ffff:102:304-120": ::ffff:102:304 is an IPv4-mapped address`},
	} {
		if _, err := ParseKey(c.text); err == nil || err.Error() != c.want {
			t.Errorf("ParseKey(%q)\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestKeyOverlaps(t *testing.T) {
	for _, c := range []struct {
		a, b Key
		want bool
	}{
		{key("10.5.1.0/24", ""), key("10.5.1.0/24", ""), true},
		{key("10.5.1.0/24", ""), key("10.5.2.0/24", ""), false},
		{key("10.5.1.0/24", ""), key("10.5.1.128/25", ""), true},
		{key("10.5.0.0/23", ""), key("10.5.1.0/24", ""), true},
		{key("10.5.1.0/24", ""), key("", "fd00::/64"), false},
		{key("10.5.1.0/24", "fd00::/64"), key("10.5.2.0/24", "fd00::/64"), true},
		{key("10.5.1.0/24", "fd00::/64"), key("10.5.1.0/24", "fd01::/64"), true},
		{key("10.5.1.0/24", "fd00::/64"), key("10.5.1.0/24", ""), true},
		{key("", ""), key("", ""), false},
	} {
		if c.a.Overlaps(c.b) != c.want || c.b.Overlaps(c.a) != c.want {
			t.Errorf("%v overlaps %v: got %v, want %v", c.a, c.b, !c.want, c.want)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{
		"10.5.34.0-24", "10.5.34.0-24&fd00:10:5:1::-64", "0.0.0.0-0&fd00::-64", "a/b/010.5.34.0-24",
		"10.5.34.9-31&::ffff:1:2-127", "1.2.3.4-0&::-0", "0.0.0.0-0",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, err := ParseKey(s)
		if err != nil {
			return
		}
		if !k.IsValid() {
			t.Fatalf("ParseKey(%q) gave neither key nor error", s)
		}
		text := k.String()
		if strings.ToLower(text) != text || strings.Count(text, ".") != 3 {
			t.Errorf("%q has upper case, or not exactly one dotted quad", text)
		}
		if again, err := ParseKey(text); err != nil || again != k {
			t.Errorf("ParseKey(%q) = %v, %v, want %v", text, again, err, k)
		}
	})
}
