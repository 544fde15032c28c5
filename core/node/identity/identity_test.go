package identity

import (
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// The addresses of these tests: the node publishes the first ones, and the second ones are on its uplink, too.
var (
	v4     = addr("192.168.64.1")
	also4  = addr("192.168.64.9")
	other4 = addr("192.168.64.2")
	v6     = addr("fd00:64::1")
	also6  = addr("fd00:64::9")
	other6 = addr("fd00:64::2")
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// host returns the identity of a node with two addresses of each family.
func host() *Identity {
	var addrs []driver.LinkAddr
	for _, a := range []netip.Addr{v4, also4, v6, also6} {
		addrs = append(addrs, driver.LinkAddr{Prefix: netip.PrefixFrom(a, a.BitLen())})
	}
	return &Identity{
		Public: lease.ByFamily{V4: v4, V6: v6}, Uplink: "eth0",
		Links: []driver.Link{{Name: "eth0", Addrs: addrs}, {Name: "eth1", Addrs: []driver.LinkAddr{
			{Prefix: netip.PrefixFrom(other4, 24)}}}},
	}
}

func record(subnet string, a4, a6 netip.Addr) *lease.Lease {
	return &lease.Lease{
		Key:   lease.Key{V4: netip.MustParsePrefix(subnet)},
		Attrs: lease.Attrs{PublicIP: a4, PublicIPv6: a6},
	}
}

// The address of the family that decides tells whose a record is; one of the other family counts without it.
func TestPublishes(t *testing.T) {
	none := netip.Addr{}
	only4 := func(i *Identity) { i.Public.V6 = none }
	for name, c := range map[string]struct {
		set    func(*Identity)
		a4, a6 netip.Addr
		want   bool
	}{
		"the own address":                    {nil, v4, none, true},
		"the IPv4 address decides":           {nil, v4, other6, true},
		"not the IPv6 address":               {nil, other4, v6, false},
		"the IPv6 address alone":             {nil, none, v6, true},
		"another IPv6 address alone":         {nil, none, also6, false},
		"IPv6 only, by the IPv6 address":     {func(i *Identity) { i.IPv6Only = true }, other4, v6, true},
		"IPv6 only, another one":             {func(i *Identity) { i.IPv6Only = true }, v4, other6, false},
		"of the last run":                    {func(i *Identity) { i.Before.V4 = also4 }, also4, none, true},
		"of the last run, no longer here":    {func(i *Identity) { i.Before.V4 = other4 }, other4, none, false},
		"on the uplink, never published":     {nil, also4, none, false},
		"a family that is off, any address":  {only4, none, also6, true},
		"a family that is off, not here":     {only4, none, other6, false},
		"a family that is off, by the flag":  {func(i *Identity) { only4(i); i.Given.V6 = v6 }, none, v6, true},
		"a family that is off, not the flag": {func(i *Identity) { only4(i); i.Given.V6 = v6 }, none, also6, false},
		"no address":                         {nil, none, none, false},
	} {
		i := host()
		if c.set != nil {
			c.set(i)
		}
		if got := i.Publishes(&lease.Attrs{PublicIP: c.a4, PublicIPv6: c.a6}); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// A node owns the record of its lease under an old address, and what it has written; of the last run it owned more.
func TestOwns(t *testing.T) {
	none := netip.Addr{}
	mine, foreign := record("10.5.1.0/24", other4, none), record("10.5.2.0/24", other4, none)
	as := func(r *lease.Lease) Lease { return Lease{Key: r.Key, Attrs: &r.Attrs} }
	another := record("10.5.9.0/24", v4, none).Key
	for name, c := range map[string]struct {
		set         func(*Identity)
		owns, owned bool
	}{
		"nothing":                {func(*Identity) {}, false, false},
		"held":                   {func(i *Identity) { i.Held = as(mine) }, true, true},
		"programmed":             {func(i *Identity) { i.Self = as(mine) }, true, true},
		"written":                {func(i *Identity) { i.Written[1] = as(mine) }, true, true},
		"saved":                  {func(i *Identity) { i.Saved = as(mine) }, false, true},
		"assigned":               {func(i *Identity) { i.Assigned = mine.Key }, true, true},
		"another one assigned":   {func(i *Identity) { i.Assigned, i.Self = another, as(mine) }, false, false},
		"held, another assigned": {func(i *Identity) { i.Assigned, i.Held = another, as(mine) }, false, true},
	} {
		i := host()
		c.set(i)
		if owns, owned := i.Owns(mine), i.Owned(mine); owns != c.owns || owned != c.owned {
			t.Errorf("%s: owns %t, owned %t; want %t, %t", name, owns, owned, c.owns, c.owned)
		}
		if i.Owns(foreign) || i.Owned(foreign) {
			t.Errorf("%s: owns a record of another subnet", name)
		}
	}
	changed := record("10.5.1.0/24", other4, none)
	changed.Attrs.BackendType = "vxlan"
	i := host()
	i.Written[0] = as(mine)
	if i.Wrote(changed) || !i.Wrote(mine) {
		t.Error("a record with other content counts as written")
	}
}

// The IPv4 address tells the owner, and the IPv6 address only without one.
func TestSameOwner(t *testing.T) {
	none := netip.Addr{}
	for _, c := range []struct {
		a4, a6, b4, b6 netip.Addr
		want           bool
	}{
		{v4, v6, v4, other6, true}, {v4, v6, other4, v6, false}, {none, v6, none, v6, true}, {none, v6, none, other6, false},
	} {
		a, b := lease.Attrs{PublicIP: c.a4, PublicIPv6: c.a6}, lease.Attrs{PublicIP: c.b4, PublicIPv6: c.b6}
		if got := SameOwner(&a, &b); got != c.want {
			t.Errorf("%v and %v: %t", a, b, got)
		}
	}
}
