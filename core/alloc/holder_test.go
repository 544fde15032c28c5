package alloc

import (
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

func parseConfig(t *testing.T, text string) config.Network {
	t.Helper()
	network, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return network
}

// TestHolder checks which records count as other leases of a node that asks for a subnet.
func TestHolder(t *testing.T) {
	const backend = `,"Backend":{"Type":"vxlan"}}`
	v4 := parseConfig(t, `{"Network":"10.5.0.0/16"`+backend)
	v6 := parseConfig(t, `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:5::/56"`+backend)
	dual := parseConfig(t, `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/56"`+backend)
	node := lease.Attrs{PublicIP: netip.MustParseAddr("192.0.2.1"), PublicIPv6: netip.MustParseAddr("2001:db8::1")}
	only4, only6 := node, node
	only4.PublicIPv6, only6.PublicIP = netip.Addr{}, netip.Addr{}
	moved := lease.Attrs{PublicIP: netip.MustParseAddr("192.0.2.9"), PublicIPv6: node.PublicIPv6, Creator: "node"}
	unknown := lease.Attrs{PublicIP: netip.IPv4Unspecified()}
	for _, c := range []struct {
		what    string
		network config.Network
		asks    lease.Attrs
		name    string
		key     string
		present string
		attrs   lease.Attrs
		want    bool
	}{
		{"its address", v4, only4, "", "10.5.1.0-24", "10.5.2.0-24", only4, true},
		{"the same key", v4, only4, "", "10.5.1.0-24", "10.5.1.0-24", only4, false},
		{"a subnet of another network", v4, only4, "", "10.5.1.0-24", "10.6.2.0-24", only4, false},
		{"a subnet of another length", v4, only4, "", "10.5.1.0-24", "10.5.2.0-25", only4, false},
		{"without a config", config.Network{}, only4, "", "10.5.1.0-24", "10.6.2.0-24", only4, true},
		{"another address", v4, node, "", "10.5.1.0-24", "10.5.2.0-24", moved, false},
		{"another address of one name", v4, node, "node", "10.5.1.0-24", "10.5.2.0-24", moved, true},
		{"another name", v4, node, "other", "10.5.1.0-24", "10.5.2.0-24", moved, false},
		{"no name", v4, moved, "", "10.5.1.0-24", "10.5.2.0-24", unknown, false},
		{"no address", v4, unknown, "", "10.5.1.0-24", "10.5.2.0-24", unknown, false},
		{"a pair", dual, node, "", "10.5.1.0-24&fd00:5:0:1::-64", "10.5.2.0-24&fd00:5:0:2::-64", node, true},
		{"a half of a pair", dual, node, "", "0.0.0.0-0&fd00:5:0:1::-64", "10.5.2.0-24&fd00:5:0:2::-64", node, true},
		{"the other half", dual, node, "", "0.0.0.0-0&fd00:5:0:1::-64", "10.5.2.0-24", node, false},
		{"IPv6 alone", v6, node, "", "0.0.0.0-0&fd00:5:0:1::-64", "0.0.0.0-0&fd00:5:0:2::-64", only6, true},
		{"a node without IPv4", dual, only6, "", "0.0.0.0-0&fd00:5:0:1::-64", "0.0.0.0-0&fd00:5:0:2::-64", node, true},
	} {
		key, err := lease.ParseKey(c.key)
		if err != nil {
			t.Fatal(err)
		}
		present, err := lease.ParseKey(c.present)
		if err != nil {
			t.Fatal(err)
		}
		held := &lease.Lease{Key: present, Attrs: c.attrs, ID: 7, CreateRevision: 5}
		younger := &lease.Lease{Key: present, Attrs: c.attrs, ID: 7, CreateRevision: 6}
		h := Holder{Name: c.name, Attrs: c.asks, Network: c.network}
		if got := h.Other([]*lease.Lease{younger, held}, key); (got == held) != c.want || (got == nil) == c.want {
			t.Errorf("%s: %+v, want one: %t", c.what, got, c.want)
		}
		reserved := *held
		reserved.ID = 0
		if got := h.Other([]*lease.Lease{&reserved}, key); got != nil {
			t.Errorf("%s: a reservation counts", c.what)
		}
	}
}
