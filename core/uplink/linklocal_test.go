package uplink

import (
	"net/netip"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/driver"
)

// While a host has no global address it may have to use a link-local one. Peers refuse that,
// so the node takes the global one as soon as there is one, and then keeps it.
func TestLinkLocalIsNotKept(t *testing.T) {
	local := driver.LinkAddr{Prefix: netip.MustParsePrefix("fe80::1/64"), LinkLocal: true, Permanent: true}
	global := driver.LinkAddr{Prefix: netip.MustParsePrefix("fd00:64::2/64"), Permanent: true}
	link := driver.Link{Name: "eth0", Index: 7, MTU: 1500, Up: true}
	route := driver.Route{Dst: netip.MustParsePrefix("::/0"), Hops: []driver.Hop{{Link: "eth0"}}}
	var m Memory
	for _, step := range []struct {
		addrs []driver.LinkAddr
		want  driver.LinkAddr
	}{
		{[]driver.LinkAddr{local}, local},
		{[]driver.LinkAddr{local, global}, global},
		{[]driver.LinkAddr{local, global}, global},
	} {
		link.Addrs = step.addrs
		facts := driver.HostFacts{Links: []driver.Link{link}, Routes: []driver.Route{route}}
		d := Choose(Options{}, v6, Host{Facts: facts}, m, time.Time{})
		if d.Trouble != nil || d.Used.PublicIPv6 != step.want.Prefix.Addr() {
			t.Fatalf("of %v: %v, %v; want %v", step.addrs, d.Used, d.Trouble, step.want.Prefix.Addr())
		}
		m = d.Memory
	}
}
