package alloc

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

func network(t testing.TB, members string) config.Network {
	t.Helper()
	n, err := config.Parse([]byte("{" + members + "}"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const (
	onlyV4 = `"Network":"10.5.0.0/16"`
	onlyV6 = `"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:1::/48"`
	dual   = `"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:1::/48"`
	// thirtyTwo subnets, 10.5.0.0/24 to 10.5.31.0/24.
	thirtyTwo = `"Network":"10.5.0.0/19","SubnetMin":"10.5.0.0"`
)

func key(t testing.TB, text string) lease.Key {
	t.Helper()
	k, err := lease.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func holding(t testing.TB, keys ...string) *lease.Snapshot {
	t.Helper()
	snap := new(lease.Snapshot)
	for _, k := range keys {
		snap.Leases = append(snap.Leases, &lease.Lease{Key: key(t, k)})
	}
	return snap
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func TestCompatible(t *testing.T) {
	for _, c := range []struct{ network, key, want string }{
		{onlyV4, "10.5.1.0-24", ""},
		{onlyV4, "10.5.255.0-24", ""},
		{dual, "10.5.1.0-24&fd00:1:0:1::-64", ""},
		{onlyV6, "0.0.0.0-0&fd00:1:0:1::-64", ""},
		{onlyV4, "10.5.1.0-24&fd00:1:0:1::-64", "subnet 10.5.1.0-24&fd00:1:0:1::-64: has an IPv6 part, but IPv6 is off"},
		{onlyV6, "10.5.1.0-24&fd00:1:0:1::-64", "subnet 10.5.1.0-24&fd00:1:0:1::-64: has an IPv4 part, but IPv4 is off"},
		{dual, "10.5.1.0-24", "subnet 10.5.1.0-24: has no IPv6 part, but IPv6 is on"},
		{dual, "0.0.0.0-0&fd00:1:0:1::-64", "subnet 0.0.0.0-0&fd00:1:0:1::-64: has no IPv4 part, but IPv4 is on"},
		{onlyV4, "10.5.1.0-25", "subnet 10.5.1.0-25: 10.5.1.0/25 has length 25, want 24"},
		{onlyV4, "10.5.0.0-24", "subnet 10.5.0.0-24: 10.5.0.0/24 is outside 10.5.1.0 to 10.5.255.0"},
		{onlyV4, "10.6.1.0-24", "subnet 10.6.1.0-24: 10.6.1.0/24 is outside 10.5.1.0 to 10.5.255.0"},
		{dual, "10.5.1.0-24&fd00:2:0:1::-64",
			"subnet 10.5.1.0-24&fd00:2:0:1::-64: fd00:2:0:1::/64 is outside fd00:1:0:1:: to fd00:1:0:ffff::"},
	} {
		got := ""
		if err := Compatible(network(t, c.network), key(t, c.key)); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("Compatible(%s, %s)\n got %s\nwant %s", c.network, c.key, got, c.want)
		}
	}
	off := lease.Key{V4: netip.MustParsePrefix("10.5.1.7/24")}
	want := "subnet 10.5.1.7-24: 10.5.1.7/24 is not on a boundary, want 10.5.1.0/24"
	if err := Compatible(network(t, onlyV4), off); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestFree(t *testing.T) {
	snap := holding(t, "10.5.1.0-24", "10.5.2.0-24&fd00:1:0:2::-64", "10.5.4.0-23")
	snap.Quarantined = []lease.Quarantined{
		{Raw: "subnets/10.5.9.0-24", Key: key(t, "10.5.9.0-24")},
		{Raw: "subnets/nonsense"},
	}
	for _, c := range []struct {
		key  string
		want bool
	}{
		{"10.5.3.0-24", true},
		{"10.5.1.0-24", false},
		{"10.5.1.128-25", false},
		{"10.5.5.0-24", false},
		{"10.5.9.0-24", false},
		{"10.5.3.0-24&fd00:1:0:2::-64", false},
		{"10.5.1.0-24&fd00:1:0:1::-64", false},
		{"10.5.3.0-24&fd00:1:0:1::-64", true},
		{"0.0.0.0-0&fd00:1:0:1::-64", true},
	} {
		if got := Free(snap, key(t, c.key)); got != c.want {
			t.Errorf("%s free: got %v, want %v", c.key, got, c.want)
		}
	}
}

func TestChooseFillsARangeToTheLast(t *testing.T) {
	n := network(t, thirtyTwo)
	for seed := range uint64(20) {
		rng, snap := random(seed), new(lease.Snapshot)
		for i := range 32 {
			k, err := Choose(n, snap, lease.Key{}, rng)
			if err != nil {
				t.Fatalf("seed %d, subnet %d: %v", seed, i, err)
			}
			if err := Compatible(n, k); err != nil || !Free(snap, k) {
				t.Fatalf("seed %d, subnet %d: chose %v, which is taken or unfit: %v", seed, i, k, err)
			}
			snap.Leases = append(snap.Leases, &lease.Lease{Key: k})
		}
		_, err := Choose(n, snap, lease.Key{}, rng)
		const want = "no subnet is free: all 32 of length /24 from 10.5.0.0 to 10.5.31.0 are taken"
		if err == nil || err.Error() != want {
			t.Fatalf("got %v, want %s", err, want)
		}
	}
}

func TestChooseErrors(t *testing.T) {
	for _, c := range []struct{ network, taken, want string }{
		{onlyV4, "10.5.0.0-16", "no subnet is free: all 255 of length /24 from 10.5.1.0 to 10.5.255.0 are taken"},
		{onlyV4, "0.0.0.0-1", "no subnet is free: all 255 of length /24 from 10.5.1.0 to 10.5.255.0 are taken"},
		{
			`"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/8","IPv6SubnetLen":126`, "0.0.0.0-0&fc00::-7",
			"no subnet is free: all 332306998946228968225951765070086143 of length /126 from fd00::4 to " +
				"fdff:ffff:ffff:ffff:ffff:ffff:ffff:fffc are taken",
		},
		{dual, "10.6.0.0-16&fd00:1::-32", "no subnet is free: all 65535 of length /64 from fd00:1:0:1:: to " +
			"fd00:1:0:ffff:: are taken"},
		{
			dual, "10.5.0.0-16&fd00:1::-32",
			"no subnet is free: all 255 of length /24 from 10.5.1.0 to 10.5.255.0 are taken; " +
				"no subnet is free: all 65535 of length /64 from fd00:1:0:1:: to fd00:1:0:ffff:: are taken",
		},
	} {
		_, err := Choose(network(t, c.network), holding(t, c.taken), lease.Key{}, random(1))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s with %s taken\n got %v\nwant %s", c.network, c.taken, err, c.want)
		}
	}
}

// TestChooseKeepsClear leaves exactly one subnet free and expects it.
func TestChooseKeepsClear(t *testing.T) {
	for _, c := range []struct {
		name, network string
		taken         []string
		want          string
	}{
		{"longer and shorter records", `"Network":"10.5.0.0/21"`,
			[]string{"10.5.1.128-25", "10.5.2.0-23", "10.5.4.64-30", "10.5.6.0-23"}, "10.5.5.0-24"},
		{"the first is free", `"Network":"10.5.0.0/22"`, []string{"10.5.2.0-23"}, "10.5.1.0-24"},
		{"the last is free", `"Network":"10.5.0.0/22"`, []string{"10.5.0.0-23", "10.5.2.0-24"}, "10.5.3.0-24"},
		{"the same record twice", `"Network":"10.5.0.0/22"`, []string{"10.5.1.0-24", "10.5.1.0-24", "10.5.2.0-24"},
			"10.5.3.0-24"},
		{"records outside", `"Network":"10.5.0.0/22","SubnetMin":"10.5.2.0","SubnetMax":"10.5.2.0"`,
			[]string{"10.5.1.0-24", "10.5.3.0-24", "10.0.0.0-16", "192.168.0.0-16"}, "10.5.2.0-24"},
		{
			"IPv4-only records in a dual-stack store", `"Network":"10.5.0.0/22","EnableIPv6":true,"IPv6Network":"fd00:1::/62"`,
			[]string{"10.5.1.0-24", "10.5.2.0-24&fd00:1:0:1::-64", "0.0.0.0-0&fd00:1:0:3::-64"}, "10.5.3.0-24&fd00:1:0:2::-64",
		},
		{"IPv6 only", `"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:1::/62"`,
			[]string{"10.5.2.0-24&fd00:1:0:1::-64", "0.0.0.0-0&fd00:1:0:3::-64"}, "0.0.0.0-0&fd00:1:0:2::-64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(8) {
				got, err := Choose(network(t, c.network), holding(t, c.taken...), lease.Key{}, random(seed))
				if err != nil || got != key(t, c.want) {
					t.Fatalf("seed %d: got %v, %v, want %s", seed, got, err, c.want)
				}
			}
		})
	}
}

func TestChooseLeavesQuarantinedRecordsAlone(t *testing.T) {
	snap := holding(t, "10.5.1.0-24")
	snap.Quarantined = []lease.Quarantined{{Raw: "subnets/10.5.2.0-24", Key: key(t, "10.5.2.0-24")},
		{Raw: "subnets/nonsense"}}
	for seed := range uint64(8) {
		got, err := Choose(network(t, `"Network":"10.5.0.0/22"`), snap, lease.Key{}, random(seed))
		if err != nil || got != key(t, "10.5.3.0-24") {
			t.Fatalf("seed %d: got %v, %v", seed, got, err)
		}
	}
}

func TestChooseDependsOnTheSeedOnly(t *testing.T) {
	n, snap := network(t, dual), holding(t, "10.5.1.0-24")
	first, err := Choose(n, snap, lease.Key{}, random(8231))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Choose(n, snap, lease.Key{}, random(8231)); err != nil || again != first {
		t.Errorf("the same seed chose %v, then %v (%v)", first, again, err)
	}
}

// TestChooseIsUniform counts how often each free subnet is drawn. The seed is
// fixed, so the test cannot fail by chance; the bounds are six standard
// deviations wide.
// interop E13: the choice is over the whole free range.
func TestChooseIsUniform(t *testing.T) {
	const draws, free = 12000, 12
	n := network(t, `"Network":"10.5.0.0/20"`) // 15 subnets
	snap := holding(t, "10.5.4.0-24", "10.5.8.0-24", "10.5.15.0-24")
	rng, drawn := random(1), map[lease.Key]int{}
	for range draws {
		k, err := Choose(n, snap, lease.Key{}, rng)
		if err != nil {
			t.Fatal(err)
		}
		drawn[k]++
	}
	if len(drawn) != free {
		t.Errorf("%d subnets were drawn, want %d", len(drawn), free)
	}
	for k, times := range drawn {
		if times < draws/free-180 || times > draws/free+180 {
			t.Errorf("%v was drawn %d times, want about %d", k, times, draws/free)
		}
	}
}

// TestChooseSpreadsOverHugeRanges draws from ranges too large to list and
// expects both halves of the range to be used.
func TestChooseSpreadsOverHugeRanges(t *testing.T) {
	for _, c := range []struct{ network, upper string }{
		{`"Network":"10.0.0.0/8"`, "10.128.0.0"},
		{`"Network":"10.0.0.0/8","SubnetLen":30`, "10.128.0.0"},
		{`"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/16","IPv6SubnetLen":80`, "fd00:8000::"},
		{`"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/8","IPv6SubnetLen":126`, "fd80::"},
	} {
		t.Run(c.network, func(t *testing.T) {
			n, snap := network(t, c.network), new(lease.Snapshot)
			rng := random(3)
			upper, above := netip.MustParseAddr(c.upper), 0
			f := cidr.FamilyOf(upper)
			const draws = 400
			for range draws {
				k, err := Choose(n, snap, lease.Key{}, rng)
				if err != nil {
					t.Fatal(err)
				}
				if err := Compatible(n, k); err != nil || !Free(snap, k) {
					t.Fatalf("chose %v, which is taken or unfit: %v", k, err)
				}
				snap.Leases = append(snap.Leases, &lease.Lease{Key: k})
				if !k.Of(f).Addr().Less(upper) {
					above++
				}
			}
			if above < draws/2-60 || above > draws/2+60 {
				t.Errorf("%d of %d lie in the upper half", above, draws)
			}
		})
	}
}

// TestChooseAgreesWithASearch compares Choose with a search that tries every subnet.
func TestChooseAgreesWithASearch(t *testing.T) {
	n := network(t, `"Network":"10.5.0.0/26","SubnetLen":30`) // 15 subnets
	r := n.V4
	rapid.Check(t, func(t *rapid.T) {
		snap := new(lease.Snapshot)
		for range rapid.IntRange(0, 20).Draw(t, "records") {
			addr := netip.AddrFrom4([4]byte{10, 5, 0, rapid.Byte().Draw(t, "octet")})
			p := netip.PrefixFrom(addr, rapid.IntRange(27, 31).Draw(t, "length")).Masked()
			snap.Leases = append(snap.Leases, &lease.Lease{Key: lease.Key{V4: p}})
		}
		free := map[lease.Key]bool{}
		for i := range uint64(15) {
			if k := (lease.Key{V4: cidr.Subnet(r.Min, cidr.From64(i), r.SubnetLen)}); Free(snap, k) {
				free[k] = true
			}
		}
		k, err := Choose(n, snap, lease.Key{}, random(rapid.Uint64().Draw(t, "seed")))
		if (err == nil) != (len(free) > 0) || err == nil && !free[k] {
			t.Fatalf("chose %v, %v out of %v", k, err, free)
		}
	})
}

func TestInside(t *testing.T) {
	network, err := config.ParseAssigned([]byte(`{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00::/48"}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"10.5.0.0-17&fd00::-64":   "",
		"10.5.3.128-31&fd00::-48": "",
		"10.6.0.0-24&fd00::-64":   "subnet 10.6.0.0-24&fd00::-64: 10.6.0.0/24 is outside the network 10.5.0.0/16",
		"10.5.0.0-24&fd00::-47":   "subnet 10.5.0.0-24&fd00::-47: fd00::/47 is outside the network fd00::/48",
		"10.5.3.0-24":             "subnet 10.5.3.0-24: has no IPv6 part, but IPv6 is on",
	} {
		key, err := lease.ParseKey(text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := Inside(network, key); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestKeep(t *testing.T) {
	snap := holding(t, "10.5.2.0-24&fd00:1:0:2::-64")
	for _, c := range []struct{ network, key, want string }{
		{dual, "10.5.1.0-24", "10.5.1.0-24"},
		{dual, "10.5.1.0-24&fd00:1:0:1::-64", "10.5.1.0-24&fd00:1:0:1::-64"},
		{onlyV4, "10.5.1.0-24&fd00:1:0:1::-64", "10.5.1.0-24"},
		{onlyV6, "10.5.1.0-24&fd00:1:0:1::-64", "0.0.0.0-0&fd00:1:0:1::-64"},
		{dual, "10.6.1.0-24&fd00:1:0:1::-64", "0.0.0.0-0&fd00:1:0:1::-64"},
		{dual, "10.5.2.0-24&fd00:1:0:1::-64", "0.0.0.0-0&fd00:1:0:1::-64"},
		{dual, "10.5.1.0-24&fd00:1:0:2::-64", "10.5.1.0-24"},
		{dual, "10.5.1.0-25&fd00:2:0:1::-64", ""},
	} {
		got := Keep(network(t, c.network), snap, key(t, c.key))
		want := lease.Key{}
		if c.want != "" {
			want = key(t, c.want)
		}
		if got != want {
			t.Errorf("Keep(%s, %s): got %s, want %s", c.network, c.key, got, want)
		}
		full, err := Choose(network(t, c.network), snap, got, random(1))
		if err != nil || Compatible(network(t, c.network), full) != nil {
			t.Errorf("%s completed to %s: %v", got, full, err)
		}
		if got.V4.IsValid() && full.V4 != got.V4 || got.V6.IsValid() && full.V6 != got.V6 {
			t.Errorf("%s became %s", got, full)
		}
	}
}
