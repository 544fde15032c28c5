package cidr

import (
	"math/big"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// The properties below compare with math/big, which is too slow to choose
// among thousands of subnets but has no width to overflow.

func bigOf(n Uint128) *big.Int {
	b := new(big.Int).Lsh(new(big.Int).SetUint64(n.Hi), 64)
	return b.Or(b, new(big.Int).SetUint64(n.Lo))
}

func bigAddr(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

var modulus = new(big.Int).Lsh(big.NewInt(1), 128)

func same(t *rapid.T, what string, got Uint128, want *big.Int) {
	t.Helper()
	want = new(big.Int).Mod(want, modulus)
	if bigOf(got).Cmp(want) != 0 {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// numbers also draws words of equal bits, with which carries happen.
var numbers = rapid.Custom(func(t *rapid.T) Uint128 {
	word := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, 1 << 63, ^uint64(0)}))
	return Uint128{word.Draw(t, "hi"), word.Draw(t, "lo")}
})

var prefixes = rapid.Custom(func(t *rapid.T) netip.Prefix {
	f := Families[rapid.IntRange(0, 1).Draw(t, "family")]
	return netip.PrefixFrom(f.Addr(numbers.Draw(t, "address")), rapid.IntRange(0, f.Bits()).Draw(t, "length"))
})

func TestUint128(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := numbers.Draw(t, "a"), numbers.Draw(t, "b")
		by := rapid.IntRange(0, 128).Draw(t, "by")
		x, y := bigOf(a), bigOf(b)
		same(t, "a+b", a.Add(b), new(big.Int).Add(x, y))
		same(t, "a-b", a.Sub(b), new(big.Int).Sub(x, y))
		same(t, "a<<by", a.Shl(by), new(big.Int).Lsh(x, uint(by)))
		same(t, "a>>by", a.Shr(by), new(big.Int).Rsh(x, uint(by)))
		if got, want := a.Cmp(b), x.Cmp(y); got != want {
			t.Fatalf("cmp: got %d, want %d", got, want)
		}
		if got, want := a.Len(), x.BitLen(); got != want {
			t.Fatalf("len: got %d, want %d", got, want)
		}
		if got, want := a.String(), x.String(); got != want {
			t.Fatalf("string: got %s, want %s", got, want)
		}
	})
}

func TestNumberOfAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := prefixes.Draw(t, "prefix").Addr()
		same(t, "number", Number(a), bigAddr(a))
		if got := FamilyOf(a).Addr(Number(a)); got != a {
			t.Fatalf("back: got %v, want %v", got, a)
		}
	})
}

func TestLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := prefixes.Draw(t, "prefix")
		last := Last(p)
		if !p.Contains(last) || last.Next().IsValid() && p.Contains(last.Next()) {
			t.Fatalf("%v is not the last address of %v", last, p)
		}
	})
}

func TestContains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		outer, inner := prefixes.Draw(t, "outer"), prefixes.Draw(t, "inner")
		if rapid.Bool().Draw(t, "related") {
			inner = netip.PrefixFrom(outer.Addr(), min(inner.Bits(), outer.Addr().BitLen()))
		}
		want := FamilyOf(outer.Addr()) == FamilyOf(inner.Addr()) &&
			outer.Contains(inner.Masked().Addr()) && outer.Contains(Last(inner))
		if got := Contains(outer, inner); got != want {
			t.Fatalf("%v contains %v: got %v, want %v", outer, inner, got, want)
		}
	})
	if Contains(netip.Prefix{}, netip.MustParsePrefix("10.0.0.0/8")) ||
		Contains(netip.MustParsePrefix("10.0.0.0/8"), netip.Prefix{}) {
		t.Error("an invalid prefix contains another, or is inside one")
	}
}

func TestSubnetsOfARange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		network := prefixes.Filter(func(p netip.Prefix) bool { return p.Bits() < p.Addr().BitLen()-1 }).Draw(t,
			"network").Masked()
		length := rapid.IntRange(network.Bits()+1, network.Addr().BitLen()-1).Draw(t, "length")
		// Any number of subnets that fits: count down from the top.
		all := new(big.Int).Lsh(big.NewInt(1), uint(length-network.Bits()))
		n := new(big.Int).Mod(bigOf(numbers.Draw(t, "n")), all)
		index := Uint128{new(big.Int).Rsh(n, 64).Uint64(), new(big.Int).And(n, bigOf(Uint128{Lo: ^uint64(0)})).Uint64()}

		subnet := Subnet(network.Addr(), index, length)
		if !Contains(network, subnet) || subnet != subnet.Masked() || subnet.Bits() != length {
			t.Fatalf("subnet %v of %v at length %d is %v", n, network, length, subnet)
		}
		want := new(big.Int).Add(bigAddr(network.Addr()), new(big.Int).Lsh(n, uint(network.Addr().BitLen()-length)))
		same(t, "base", Number(subnet.Addr()), want)
		same(t, "count", Count(network.Addr(), subnet.Addr(), length), new(big.Int).Add(n, big.NewInt(1)))
	})
}

func TestFamily(t *testing.T) {
	for _, c := range []struct {
		addr string
		want Family
		name string
		bits int
	}{
		{"10.5.0.1", V4, "IPv4", 32},
		{"fd00::1", V6, "IPv6", 128},
		{"::ffff:10.5.0.1", V6, "IPv6", 128},
	} {
		f := FamilyOf(netip.MustParseAddr(c.addr))
		if f != c.want || f.String() != c.name || f.Bits() != c.bits {
			t.Errorf("%s: got %v of %d bits, want %s of %d", c.addr, f, f.Bits(), c.name, c.bits)
		}
	}
}

// ParseAddr takes an address only as one of the family asked for, and refuses what
// belongs to no family or to one host alone.
func TestParseAddr(t *testing.T) {
	for text, want := range map[string][2]bool{
		"10.5.0.1":        {V4: true},
		"fd00::1":         {V6: true},
		"fe80::1":         {V6: true},
		"fe80::1%eth0":    {},
		"::ffff:10.5.0.1": {},
		"10.5.0":          {},
		"":                {},
	} {
		for _, f := range Families {
			a, ok := ParseAddr(f, text)
			if ok != want[f] || ok && a != netip.MustParseAddr(text) {
				t.Errorf("%q as %s: %v, %t, want %t", text, f, a, ok, want[f])
			}
		}
	}
}

func TestPick(t *testing.T) {
	one, other := 4, 6
	*Pick(V6, &one, &other) = 66
	if Pick(V4, one, other) != 4 || Pick(V6, one, other) != 66 {
		t.Errorf("picked %d and %d, want 4 and 66", Pick(V4, one, other), Pick(V6, one, other))
	}
}

func TestCmpOfEqualWords(t *testing.T) {
	less, more := Uint128{Hi: 1, Lo: 2}, Uint128{Hi: 1, Lo: 3}
	if less.Cmp(more) != -1 || more.Cmp(less) != 1 || less.Cmp(less) != 0 {
		t.Errorf("%v and %v: %d, %d and %d, want -1, 1 and 0", less, more, less.Cmp(more), more.Cmp(less), less.Cmp(less))
	}
}

// TestCover: the prefixes hold the given addresses and no others, and no two of them could be one.
func TestCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Families[rapid.IntRange(0, 1).Draw(t, "family")]
		base := rapid.SampledFrom([]Uint128{{}, {Lo: 10 << 24}, {Hi: ^uint64(0), Lo: ^uint64(0) - 31}}).Draw(t, "base")
		in := map[netip.Addr]bool{}
		var addrs []netip.Addr
		for _, n := range rapid.SliceOf(rapid.Uint64Range(0, 31)).Draw(t, "numbers") {
			a := f.Addr(base.Add(From64(n)))
			in[a] = true
			addrs = append(addrs, a)
		}
		cover := Cover(addrs)
		held := 0
		for i, p := range cover {
			for a := p.Addr(); p.Contains(a); a = a.Next() {
				held++
				if !in[a] {
					t.Fatalf("%v of %v holds %v", p, cover, a)
				}
			}
			if i == 0 {
				continue
			}
			both := netip.PrefixFrom(p.Addr(), p.Bits()-1).Masked()
			if before := cover[i-1]; before.Bits() == p.Bits() && both.Contains(before.Addr()) {
				t.Fatalf("%v and %v are one prefix", before, p)
			}
		}
		if held != len(in) {
			t.Fatalf("%v holds %d addresses of %d", cover, held, len(in))
		}
	})
}
