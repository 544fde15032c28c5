package kernel

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// TestHints counts the hints of a listener, in virtual time and by the channel.
func TestHints(t *testing.T) {
	l := underlay(t, 1, 1)
	h := l.hosts[0]
	<-h.Driver().Hints() // from building the host
	heard := 0
	h.OnHint(func() { heard++ })
	must(t, h.LinkDown("eth0"))
	must(t, h.LinkUp("eth0"))
	if heard != 0 {
		t.Error("a hint came within the action, not as an event of its own")
	}
	l.Run(time.Second)
	if heard != 1 {
		t.Errorf("two actions at one instant gave %d hints, want one", heard)
	}
	must(t, h.LinkDown("eth0"))
	l.Run(time.Second)
	if heard != 2 {
		t.Errorf("%d hints, want two", heard)
	}
	select {
	case <-h.Driver().Hints():
	default:
		t.Error("the driver's channel is empty")
	}

	h.LoseHints(1)
	must(t, h.LinkUp("eth0"))
	l.Run(time.Second)
	if heard != 2 || len(h.Driver().Hints()) != 0 {
		t.Errorf("a lost hint was heard: %d", heard)
	}
}

// TestFailedOpChangesNothing applies ops that fail between ops that succeed.
func TestFailedOpChangesNothing(t *testing.T) {
	l := underlay(t, 1, 1)
	d := l.hosts[0].Driver()
	var ops []dataplane.Op
	for _, line := range []string{
		"add link flannel.1 type vxlan mtu 1450 mac 02:00:00:00:04:01 id 1 dev eth0 local 192.168.64.1 port 8472",
		"add route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink",
		"add link flannel.9 type vxlan mtu 1450 id 1 dev eth0 local 192.168.64.1 port 8472",
		"add addr 10.5.1.0/32 dev flannel.1",
	} {
		op, err := dataplane.ParseOp(line)
		must(t, err)
		ops = append(ops, op)
	}
	errs := d.Apply(context.Background(), ops)
	for i, want := range []error{nil, driver.ErrLinkDown, driver.ErrExists, nil} {
		if !errors.Is(errs[i], want) {
			t.Errorf("%s: error %v, want %v", ops[i], errs[i], want)
		}
	}
	seen, err := d.Look(context.Background(), dataplane.Extent{Links: []string{"flannel.1", "flannel.9"}})
	must(t, err)
	have := seen.State
	want := "link flannel.1 type vxlan mtu 1450 mac 02:00:00:00:04:01 id 1 dev eth0 local 192.168.64.1 port 8472\n" +
		"addr 10.5.1.0/32 dev flannel.1\n"
	if have.Dump() != want {
		t.Errorf("state:\n%swant:\n%s", have.Dump(), want)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if errs := d.Apply(cancelled, ops[:1]); !errors.Is(errs[0], context.Canceled) {
		t.Errorf("cancelled: error %v", errs[0])
	}
}

// TestIndexesGrow recreates a link: the kernel never uses its index again.
func TestIndexesGrow(t *testing.T) {
	l := underlay(t, 1, 1)
	h := l.hosts[0]
	index := func() int {
		program(t, h, "add link flannel.1 type vxlan mtu 1450 up id 1 dev eth0 local 192.168.64.1 port 8472")
		facts := h.Facts()
		must(t, h.LinkDelete("flannel.1"))
		return facts.Links[len(facts.Links)-1].Index
	}
	if a, b := index(), index(); b <= a {
		t.Errorf("first %d, then %d", a, b)
	}
}

// TestSecondaryFallsWithPrimary deletes the first of two addresses in a subnet.
func TestSecondaryFallsWithPrimary(t *testing.T) {
	l := underlay(t, 1, 1)
	h := l.hosts[0]
	must(t, h.AddrAdd("eth0", v4("192.168.64.200/24")))
	must(t, h.AddrAdd("eth0", v4("10.1.0.1/24")))
	must(t, h.AddrDel("eth0", v4("192.168.64.1/24")))
	facts := h.Facts()
	var got []netip.Prefix
	for _, a := range facts.Links[1].Addrs {
		if a.Prefix.Addr().Is4() {
			got = append(got, a.Prefix)
		}
	}
	if want := []netip.Prefix{v4("10.1.0.1/24")}; !slices.Equal(got, want) {
		t.Errorf("addresses %v, want %v", got, want)
	}
}

// TestIPv6NeedsItsMTU lowers a link's MTU below 1280 and raises it again.
func TestIPv6NeedsItsMTU(t *testing.T) {
	l := underlay(t, 1, 1)
	h := l.hosts[0]
	const setting = "net/ipv6/conf/eth0/accept_ra"
	must(t, h.SetMTU("eth0", 1279))
	if err := h.AddrAdd("eth0", v4("fd00:64::1/64")); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("address: error %v", err)
	}
	if err := h.SetSysctl(setting, "0"); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("setting: error %v", err)
	}
	must(t, h.SetMTU("eth0", 1280))
	must(t, h.SetSysctl(setting, "0"))
	must(t, h.AddrAdd("eth0", v4("fd00:64::1/64")))
}

// TestActionsNameTheHost checks the error that a scenario's author reads.
func TestActionsNameTheHost(t *testing.T) {
	l := underlay(t, 1, 1)
	err := l.hosts[0].LinkDown("eth7")
	if want := `n1: link down dev eth7: no link "eth7": not found`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestTwinsAreRefused appends a route that is there, and one that is not.
func TestTwinsAreRefused(t *testing.T) {
	l := underlay(t, 1, 1)
	h := l.hosts[0]
	for _, c := range []struct {
		line string
		want error
	}{
		{"route 10.9.0.0/24 dev eth0 proto 3", nil},
		{"route 10.9.0.0/24 dev eth0 proto 4", nil},
		{"route 10.9.0.0/24 dev eth0 proto 3", driver.ErrExists},
		{"route fd09::/64 dev eth0 proto 3", nil},
		{"route fd09::/64 dev eth0 proto 4", driver.ErrExists},
		{"route fd09::/64 dev lo proto 4", nil},
	} {
		if err := h.RouteAppend(lineRoute(t, c.line)); !errors.Is(err, c.want) {
			t.Errorf("append %s: error %v, want %v", c.line, err, c.want)
		}
	}
}

// TestOneLinkLocalAddress expects one link-local address for a link with
// carrier.
func TestOneLinkLocalAddress(t *testing.T) {
	l := underlay(t, 1, 1)
	h := l.hosts[0]
	must(t, h.LinkDown("eth0"))
	must(t, h.LinkUp("eth0"))
	must(t, h.Carrier("eth0", false))
	must(t, h.Carrier("eth0", true))
	facts := h.Facts()
	n := 0
	for _, a := range facts.Links[1].Addrs {
		if a.LinkLocal {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d link-local addresses, want one: %v", n, facts.Links[1].Addrs)
	}
}
