package underlay

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/event"
	"github.com/flanneld/flannel/core/uplink"
)

var home = netip.MustParsePrefix("192.168.64.1/24")

// bench is a machine on a host with eth0, which has the default route.
type bench struct {
	t   *testing.T
	log *event.Log
	m   *Machine
	f   Facts
}

func newBench(t *testing.T) *bench {
	network, err := config.Parse([]byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, log: event.NewLog()}
	b.m = New(b.log)
	b.f = Facts{Now: time.Unix(1000, 0), Config: network, Overlays: []netip.Prefix{network.V4.Network}}
	b.f.Host.Facts = driver.HostFacts{
		Links: []driver.Link{link("eth0", 2, home)},
		Routes: []driver.Route{{
			Dst:  netip.MustParsePrefix("0.0.0.0/0"),
			Hops: []driver.Hop{{Link: "eth0", Via: netip.MustParseAddr("192.168.64.254")}},
		}},
	}
	return b
}

// link returns a link of the host, with one address.
func link(name string, index int, addr netip.Prefix) driver.Link {
	addrs := []driver.LinkAddr{{Prefix: addr, Permanent: true}}
	return driver.Link{Name: name, Index: index, MTU: 1500, Up: true, Addrs: addrs}
}

// choose chooses, and checks the result and the kinds of the events.
func (b *bench) choose(when string, want bool, kinds ...string) {
	b.t.Helper()
	if chosen, fatal := b.m.Choose(b.f); chosen != want || fatal != nil {
		b.t.Errorf("%s: chosen %t, %v", when, chosen, fatal)
	}
	b.wantEvents(when, kinds...)
}

func (b *bench) wantEvents(when string, kinds ...string) {
	b.t.Helper()
	var got []string
	for _, e := range b.log.Take() {
		got = append(got, e.Kind)
	}
	if !slices.Equal(got, kinds) {
		b.t.Errorf("%s: events %q, want %q", when, got, kinds)
	}
}

// An uplink whose address is gone stays in force, until the address is back. Each is logged once.
func TestAddressGoesAndComesBack(t *testing.T) {
	b := newBench(t)
	if !b.m.Due(b.f.Now) {
		t.Error("no choice is due at first")
	}
	b.choose("at first", true, "uplink")
	up := b.m.Uplink()
	if up.Link != "eth0" || up.PublicIP != home.Addr() || b.m.Trouble() != nil || b.m.Key() == "" {
		t.Fatalf("uplink %+v, %v", up, b.m.Trouble())
	}
	b.m.Looked(false)
	if b.m.Due(b.f.Now) {
		t.Error("a choice is due after a look without news")
	}
	addrs := b.f.Host.Facts.Links[0].Addrs
	b.f.Host.Facts.Links[0].Addrs = nil
	b.m.Looked(true)
	if !b.m.Due(b.f.Now) {
		t.Error("no choice is due after other facts")
	}
	b.choose("without the address", true, "uplink-lost")
	b.choose("without the address, again", true)
	if b.m.Uplink() != up || b.m.Trouble() == nil {
		t.Errorf("uplink %+v, %v", b.m.Uplink(), b.m.Trouble())
	}
	b.m.Looked(false)
	if !b.m.Due(b.f.Now) {
		t.Error("no choice is due while the uplink is not in order")
	}
	b.f.Host.Facts.Links[0].Addrs = addrs
	b.choose("with the address", true, "uplink-back")
}

// Without an uplink the process ends, unless an operator can fix the address in the datastore.
func TestNoUplink(t *testing.T) {
	b := newBench(t)
	b.f.Host.Facts.Routes = nil
	if chosen, fatal := b.m.Choose(b.f); chosen || fatal == nil {
		t.Errorf("chosen %t, %v; want an error", chosen, fatal)
	}
	b.f.Waits = true
	b.choose("an operator can fix it", false, "assignment")
	if b.m.Trouble() == nil {
		t.Error("no trouble")
	}
}

// An address of the datastore inside an overlay is refused; another one is published in place of the uplink's.
func TestPublishedAddress(t *testing.T) {
	b := newBench(t)
	b.f.Waits = true
	b.f.Published = lease.ByFamily{V4: netip.MustParseAddr("10.5.3.4")}
	b.choose("inside the network", false, "assignment")
	if err := b.m.Trouble(); err == nil || !strings.Contains(err.Error(), "10.5.3.4, is inside the network 10.5.0.0/16") {
		t.Errorf("trouble %v", err)
	}
	public := netip.MustParseAddr("203.0.113.7")
	b.f.Published.V4, b.f.Before = public, &lease.ByFamily{V4: home.Addr()}
	if chosen, _ := b.m.Choose(b.f); !chosen || b.m.Uplink().PublicIP != public || b.m.Uplink().IP != home.Addr() {
		t.Errorf("uplink %+v", b.m.Uplink())
	}
	events := b.log.Take()
	if len(events) != 1 || !strings.Contains(events[0].Text, "the last run published 192.168.64.1") {
		t.Errorf("events %+v", events)
	}
}

// Some backends publish the uplink's own addresses, whatever the options say.
func TestOwnAddresses(t *testing.T) {
	public := netip.MustParseAddr("203.0.113.7")
	for own, want := range map[bool]netip.Addr{false: public, true: home.Addr()} {
		b := newBench(t)
		b.f.Options.Ifaces, b.f.Options.PublicIP = []string{"eth0"}, public.String()
		b.f.OwnAddresses = own
		b.choose("at first", true, "uplink")
		if got := b.m.Uplink().PublicIP; got != want {
			t.Errorf("own addresses %t: publishes %s, want %s", own, got, want)
		}
	}
}

// The choice of the last run counts before the first one of this run, and not after.
func TestMemoryOfTheLastRun(t *testing.T) {
	b := newBench(t)
	other := netip.MustParsePrefix("198.51.100.1/24")
	b.f.Host.Facts.Links = append(b.f.Host.Facts.Links,
		link("eth1", 3, other))
	route := &b.f.Host.Facts.Routes[0]
	route.Hops = []driver.Hop{{Link: "eth1", Via: netip.MustParseAddr("198.51.100.254")}}
	b.choose("in the last run", true, "uplink")
	b.f.Saved = b.m.Memory()
	route.Hops = []driver.Hop{{Link: "eth0", Via: netip.MustParseAddr("192.168.64.254")}}
	b.m = New(b.log)
	b.choose("after the last run", true, "uplink")
	if got := b.m.Memory().Used.Link; got != "eth1" {
		t.Fatalf("uses %s, want the link of the last run", got)
	}
	b.f.Saved = uplink.Memory{}
	b.choose("again", true)
	if got := b.m.Memory().Used.Link; got != "eth1" {
		t.Errorf("uses %s", got)
	}
}

// A link that is down, without a carrier, or a bridge without a port that works is named once, and so is its end.
func TestWatch(t *testing.T) {
	b := newBench(t)
	b.choose("at first", true, "uplink")
	eth0 := driver.Link{Name: "eth0", Up: true}
	port := driver.Link{Name: "eth1", Master: "eth0", Up: true, NoCarrier: true}
	for _, c := range []struct {
		links []driver.Link
		note  string
		kinds []string
	}{
		{[]driver.Link{eth0}, "", nil},
		{[]driver.Link{{Name: "eth0"}}, "the uplink eth0 is down", []string{"uplink-down"}},
		{[]driver.Link{{Name: "eth0"}}, "the uplink eth0 is down", nil},
		{[]driver.Link{{Name: "eth0", Up: true, NoCarrier: true}}, "no carrier", []string{"uplink-down"}},
		{[]driver.Link{eth0, port}, "eth1, by which the uplink eth0", []string{"uplink-down"}},
		{[]driver.Link{eth0, port, {Name: "eth2", Master: "eth0", Up: true}}, "", []string{"uplink-up"}},
	} {
		b.m.Watch(c.links)
		if note := b.m.Notes()[1]; !strings.Contains(note, c.note) || (note == "") != (c.note == "") {
			t.Errorf("note %q, want %q", note, c.note)
		}
		b.wantEvents(c.note, c.kinds...)
	}
}
