package lease

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestKeyOrder: keys stand as their texts do.
func TestKeyOrder(t *testing.T) {
	octet := rapid.SampledFrom([]byte{0, 1, 2, 9, 10, 12, 19, 20, 99, 100, 101, 120, 199, 200, 255})
	prefix := rapid.Custom(func(t *rapid.T) Key {
		var a [4]byte
		for i := range a {
			a[i] = octet.Draw(t, "octet")
		}
		var k Key
		if rapid.IntRange(0, 3).Draw(t, "v4") > 0 {
			k.V4 = netip.PrefixFrom(netip.AddrFrom4(a), rapid.IntRange(1, 31).Draw(t, "bits"))
		}
		if !k.V4.IsValid() || rapid.Bool().Draw(t, "v6") {
			k.V6 = netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 15: a[3]}), 64)
		}
		return k
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := prefix.Draw(t, "a"), prefix.Draw(t, "b")
		if got, want := a.Compare(b), strings.Compare(a.String(), b.String()); got != want {
			t.Errorf("%s and %s: %d, want %d", a, b, got, want)
		}
	})
}
