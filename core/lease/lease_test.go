package lease

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
)

// A value of each family lands in the place of that family.
func TestByFamily(t *testing.T) {
	var b ByFamily
	b.Set(cidr.V4, someV4)
	b.Set(cidr.V6, someV6)
	if b.V4 != someV4 || b.V6 != someV6 || b.Of(cidr.V4) != someV4 || b.Of(cidr.V6) != someV6 {
		t.Errorf("%+v, of IPv4 %s, of IPv6 %s", b, b.Of(cidr.V4), b.Of(cidr.V6))
	}
	k := key("10.5.1.0/24", "fd00:10:5:1::/64")
	if k.Of(cidr.V4) != k.V4 || k.Of(cidr.V6) != k.V6 {
		t.Errorf("of IPv4 %s, of IPv6 %s", k.Of(cidr.V4), k.Of(cidr.V6))
	}
	a := Attrs{PublicIP: someV4, PublicIPv6: someV6, BackendData: []byte("4"), BackendV6Data: []byte("6")}
	for f, want := range map[cidr.Family]string{cidr.V4: "192.168.64.3 4", cidr.V6: "fd00:a::3 6"} {
		if got := fmt.Sprintf("%s %s", a.IP(f), a.Data(f)); got != want {
			t.Errorf("%s: %s, want %s", f, got, want)
		}
	}
}

func TestFilterKey(t *testing.T) {
	dual := key("10.5.1.0/24", "fd00:10:5:1::/64")
	for _, c := range []struct {
		of, want Key
		keep     []cidr.Family
		asked    int
	}{
		{of: dual, keep: []cidr.Family{cidr.V4, cidr.V6}, want: dual, asked: 2},
		{of: dual, keep: []cidr.Family{cidr.V4}, want: key("10.5.1.0/24", ""), asked: 2},
		{of: dual, keep: []cidr.Family{cidr.V6}, want: key("", "fd00:10:5:1::/64"), asked: 2},
		{of: dual, want: Key{}, asked: 2},
		{of: key("10.5.1.0/24", ""), keep: []cidr.Family{cidr.V4, cidr.V6}, want: key("10.5.1.0/24", ""), asked: 1},
		{of: key("", "fd00:10:5:1::/64"), keep: []cidr.Family{cidr.V6}, want: key("", "fd00:10:5:1::/64"), asked: 1},
	} {
		asked := 0
		got := c.of.Filter(func(f cidr.Family, half Key) bool {
			asked++
			other := cidr.Pick(f, half.V6, half.V4)
			if half.Of(f) != c.of.Of(f) || other.IsValid() {
				t.Errorf("%s: asked about %s of %s", c.of, half, f)
			}
			for _, kept := range c.keep {
				if kept == f {
					return true
				}
			}
			return false
		})
		if got != c.want || asked != c.asked {
			t.Errorf("%s filtered by %v: %s after %d questions, want %s after %d", c.of, c.keep, got, asked, c.want, c.asked)
		}
	}
}

// A family that one of the keys lacks proves no overlap.
func TestOverlapsNeedsBothSides(t *testing.T) {
	v4, v6 := key("10.5.1.0/24", ""), key("", "fd00:10:5:1::/64")
	dual := key("10.5.1.0/24", "fd00:10:5:1::/64")
	otherV4 := key("10.5.2.0/24", "fd00:10:5:1::/64")
	otherV6 := key("10.5.1.0/24", "fd00:10:5:2::/64")
	for _, c := range []struct {
		a, b Key
		want bool
	}{
		{v4, v6, false}, {v4, dual, true}, {v6, dual, true}, {dual, otherV4, true}, {dual, otherV6, true},
		{otherV4, otherV6, false}, {v4, otherV4, false}, {v6, otherV6, false},
	} {
		if c.a.Overlaps(c.b) != c.want || c.b.Overlaps(c.a) != c.want {
			t.Errorf("%s and %s: overlap is not %t", c.a, c.b, c.want)
		}
	}
}

func TestSameAddresses(t *testing.T) {
	detected := &Assigned{Detected: ByFamily{V4: someV4}}
	published := &Assigned{Published: ByFamily{V4: someV4}}
	both := &Assigned{Detected: ByFamily{V4: someV4}, Published: ByFamily{V4: someV4}}
	none := &Assigned{Key: key("10.5.1.0/24", ""), Err: errors.New("no address")}
	inside := &Assigned{Internal: ByFamily{V4: someV4}}
	all := []*Assigned{none, detected, published, both, inside}
	for i, a := range all {
		for k, b := range all {
			if a.SameAddresses(b) != (i == k) {
				t.Errorf("%+v, %+v: same is not %t", a, b, i == k)
			}
		}
		if a.SameAddresses(nil) != (a == none) || (*Assigned)(nil).SameAddresses(a) != (a == none) {
			t.Errorf("%+v compared with nil", a)
		}
		if a.Overrides() != (a != none && a != inside) {
			t.Errorf("%+v overrides: %t", a, a.Overrides())
		}
	}
}

func TestReserved(t *testing.T) {
	if !(Lease{}).Reserved() || (Lease{ID: 7}).Reserved() {
		t.Error("a lease is reserved exactly if it has no TTL")
	}
}

func TestConflictIsFound(t *testing.T) {
	err := fmt.Errorf("take it: %w", &ConflictError{Key: key("10.5.1.0/24", ""), Revision: 3})
	if !errors.Is(err, ErrConflict) || errors.Is(err, ErrLost) {
		t.Errorf("%v does not wrap ErrConflict alone", err)
	}
}

// Each of the two revisions shows a change.
func TestCompareSeesEachRevision(t *testing.T) {
	of := func(created, modified int64) []*Lease {
		return []*Lease{{Key: key("10.5.1.0/24", ""), CreateRevision: created, ModRevision: modified}}
	}
	for _, c := range []struct {
		now  []*Lease
		want int
	}{{of(1, 1), 0}, {of(1, 2), 1}, {of(2, 1), 1}, {of(2, 2), 1}} {
		d := Compare(of(1, 1), c.now)
		if len(d.Changed) != c.want || len(d.Added)+len(d.Gone) != 0 {
			t.Errorf("%+v: %+v, want %d changed", *c.now[0], d, c.want)
		}
	}
	old, now := of(1, 1), []*Lease{{Key: key("10.5.0.0/24", "")}}
	if d := Compare(old, now); d.Gone[0] != old[0] || d.Added[0] != now[0] {
		t.Errorf("%+v, want one gone and one added", d)
	}
}

// Data of other programs becomes the one form that this program writes.
func TestDecodeNormalisesData(t *testing.T) {
	for text, want := range map[string]string{
		"{\n\"a\":1}":   `{"a":1}`,
		"{\t\"a\":1}":   `{"a":1}`,
		"\"\u2028\"":    `"\u2028"`,
		"\"é\"":         "\"é\"",
		`{"a":"~"}`:     `{"a":"~"}`,
		`{"a": "b c" }`: `{"a":"b c"}`,
	} {
		a, err := DecodeAttrs([]byte(`{"PublicIP":"192.168.64.3","BackendData":` + text + `}`))
		if err != nil || string(a.BackendData) != want {
			t.Errorf("%q: %q, %v; want %q", text, a.BackendData, err, want)
		}
	}
}

func TestDecodeRefusesAnAddressOfTheOtherFamily(t *testing.T) {
	for _, text := range []string{`"x"`, `7`, `"\u0078"`} {
		_, err := DecodeAttrs([]byte(`{"PublicIP":"192.168.64.3","PublicIPv6":` + text + `}`))
		want := "lease value: PublicIPv6 `" + text + "`: want an IPv6 address or null"
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestLimitsAreInclusive(t *testing.T) {
	const frame = `{"PublicIP":"192.168.64.3"}`
	longest := frame + strings.Repeat(" ", maxValue-len(frame))
	if _, err := DecodeAttrs([]byte(longest)); err != nil {
		t.Errorf("the longest value allowed: %v", err)
	}
	if _, err := DecodeAttrs([]byte(longest + " ")); err == nil {
		t.Error("a byte more is accepted")
	}
	whole := strings.Repeat("x", maxQuoted)
	if got := excerpt([]byte(whole)); got != "`"+whole+"`" {
		t.Errorf("the longest text quoted as a whole: %s", got)
	}
}

// An empty text replaces the former key, as every other text does.
func TestUnmarshalNoKey(t *testing.T) {
	k := key("10.5.1.0/24", "")
	if err := json.Unmarshal([]byte(`""`), &k); err != nil || k != (Key{}) {
		t.Errorf("%s, %v; want no key", k, err)
	}
	kept := key("10.5.1.0/24", "")
	if err := json.Unmarshal([]byte(`"x"`), &kept); err == nil || kept.V4 != netip.MustParsePrefix("10.5.1.0/24") {
		t.Errorf("%s, %v; want an error and the key as it was", kept, err)
	}
}

// Equal attributes agree in each family.
func TestEqualInBothFamilies(t *testing.T) {
	a := Attrs{PublicIP: someV4, PublicIPv6: someV6, BackendData: []byte("4"), BackendV6Data: []byte("6")}
	for name, change := range map[string]func(*Attrs){
		"IPv4 address": func(o *Attrs) { o.PublicIP = someV4.Next() },
		"IPv6 address": func(o *Attrs) { o.PublicIPv6 = someV6.Next() },
		"IPv4 data":    func(o *Attrs) { o.BackendData = []byte("5") },
		"IPv6 data":    func(o *Attrs) { o.BackendV6Data = []byte("5") },
	} {
		o := a
		change(&o)
		if a.Equal(o) || !o.Equal(o) {
			t.Errorf("another %s makes no difference", name)
		}
	}
}
