package linux

import (
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/drivertest"
)

// TestLookAtFew has another program change two objects of each kind, and hides the announcements
// from the driver. A look that reads one of each again shows what it reads, and the other one
// as it was. A look at everything shows both.
func TestLookAtFew(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	other := must(Open(t.Context(), w.NS, drivertest.Secrets{}))
	defer other.Close()
	objects := func(mac, host, via string) []dataplane.Op {
		return ops(t,
			"replace neigh 10.5.3.0 lladdr 02:00:00:00:00:"+mac+" dev flannel.1",
			"replace fdb 02:00:00:00:00:03 dst 192.168.64."+host+" dev flannel.1",
			"replace nexthop 10.5.3.0 via 10.5.3."+via+" dev flannel.1 onlink",
			"replace route 10.5.3.0/24 via 10.5.3."+via+" dev flannel.1 onlink",
			"replace neigh 10.5.4.0 lladdr 02:00:00:00:00:"+mac+" dev flannel.1",
			"replace fdb 02:00:00:00:00:04 dst 192.168.64."+host+" dev flannel.1",
			"replace nexthop 10.5.4.0 via 10.5.4."+via+" dev flannel.1 onlink",
			"replace route 10.5.4.0/24 via 10.5.4."+via+" dev flannel.1 onlink",
		)
	}
	first, second := objects("03", "3", "0"), objects("04", "4", "9")
	apply(t, w.d, first)
	w.look(t, benchExtent)
	apply(t, other, second)
	if told := must(w.d.hints.news()); !told {
		t.Error("the changes of another program are no news")
	}
	few, half := benchExtent, len(first)/2
	few.Again = []dataplane.Object{}
	for _, op := range first[:half] {
		few.Again = append(few.Again, op.Object)
	}
	wantObjects(t, "few", w.look(t, few), second[:half], first[half:])
	wantObjects(t, "all", w.look(t, benchExtent), second)
}

// TestLookAtFewBehindRule looks at a route while a rule or a narrower route sends the packets to its
// first address nowhere. The kernel then answers as if there were no route.
func TestLookAtFewBehindRule(t *testing.T) {
	route := ops(t, "replace route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink")
	few := benchExtent
	few.Again = []dataplane.Object{route[0].Object}
	for _, hide := range []string{
		"rule add to 10.5.3.0/24 unreachable", "route add throw 10.5.3.0/32",
	} {
		w := newWorld(t)
		w.withOverlay(t)
		apply(t, w.d, route)
		w.ip(t, hide)
		wantObjects(t, "all", w.look(t, benchExtent), route)
		wantObjects(t, "few", w.look(t, few), route)
		apply(t, w.d, route)
		wantObjects(t, "few, after a plan,", w.look(t, few), route)
		apply(t, w.d, ops(t, "del route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink"))
		if have, found := w.look(t, few).Namesake(route[0].Object); found {
			t.Errorf("%s: a look at few after a delete shows %q", hide, have)
		}
	}
}

// TestLookAtFewReachesBehindRule asks for another address to reach, to which a rule hides the route.
func TestLookAtFewReachesBehindRule(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	w.do(t, "add route 0.0.0.0/0 via 192.168.64.7 dev eth0 proto 3",
		"add route 172.16.9.0/24 via 192.168.64.9 dev eth0 proto 3")
	w.ip(t, "rule add to 172.16.9.0/24 unreachable")
	extent := benchExtent
	extent.Reach = []netip.Addr{netip.MustParseAddr("172.16.8.1")}
	w.look(t, extent)
	extent.Reach = append(slices.Clone(extent.Reach), netip.MustParseAddr("172.16.9.2"))
	all := extent
	extent.Again = []dataplane.Object{}
	few := must(w.d.Look(t.Context(), extent)).Facts.(driver.HostFacts).Routes
	if want := must(w.d.Look(t.Context(), all)).Facts.(driver.HostFacts).Routes; len(few) != len(want) {
		t.Errorf("a look at few shows the routes %v, one at everything %v", few, want)
	}
}

// ip runs a command of iproute2 in the world's namespace.
func (w *world) ip(t *testing.T, args string) {
	t.Helper()
	w.run(t, "iproute2", "ip", strings.Fields(args)...)
}

// run runs a program in the world's namespace. It skips the test if the host lacks it, and names the package.
func (w *world) run(t *testing.T, from, program string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("needs the program %s: apt-get install %s", program, from)
	}
	if err := w.d.ns.Do(func() error {
		out, err := exec.Command(program, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s %s: %w: %s", program, args, err, out)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func wantObjects(t *testing.T, what string, s *dataplane.State, want ...[]dataplane.Op) {
	t.Helper()
	for _, ops := range want {
		for _, op := range ops {
			if have, ok := s.Namesake(op.Object); !ok || have != op.Object {
				t.Errorf("a look at %s shows %q, want %q", what, have, op.Object)
			}
		}
	}
}

// TestOwnChangesAreNoNews has the driver change single objects of each kind, also those whose
// announcements name no cause. They are no reason to look, but what another program does to
// them at the same time is.
func TestOwnChangesAreNoNews(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	other := must(Open(t.Context(), w.NS, drivertest.Secrets{}))
	defer other.Close()
	fdb := "fdb 02:00:00:00:00:03 dst 192.168.64.3 dev flannel.1"
	neigh := "neigh 10.5.3.0 lladdr 02:00:00:00:00:03 dev flannel.1"
	quiet := func(lines ...string) {
		t.Helper()
		apply(t, w.d, ops(t, lines...))
		if must(w.d.hints.news()) || len(w.d.hints.out) > 0 {
			t.Errorf("%q is a reason to look", lines)
		}
	}
	drain(w.d.hints.out)
	must(w.d.hints.news())
	drain(w.d.hints.out)
	quiet("replace "+fdb, "replace "+neigh, "replace route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink")
	quiet("replace fdb 02:00:00:00:00:03 dst 192.168.64.4 dev flannel.1")
	quiet("replace " + fdb)
	quiet("del "+fdb, "del "+neigh, "del route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink")

	wrote := ops(t, "replace "+fdb)
	for _, meanwhile := range []string{"del " + fdb, "replace fdb 02:00:00:00:00:03 dst 192.168.64.4 dev flannel.1"} {
		a := &applier{d: w.d, links: newLinks(w.d.query, w.d.wg), ops: wrote, errs: make([]error, 1)}
		if err := a.one(0, wrote[0]); err != nil {
			t.Fatal(err)
		}
		a.flush()
		apply(t, other, ops(t, meanwhile))
		w.d.hints.settle()
		if !must(w.d.hints.news()) {
			t.Errorf("%q by another program is no news while the driver writes the entry", meanwhile)
		}
	}
	apply(t, w.d, wrote)
	apply(t, other, ops(t, "del "+fdb))
	if !must(w.d.hints.news()) {
		t.Error("a later change by another program is no news")
	}
}

// TestLookAtFewWatchesNewAddresses asks for another address to reach, in a look at few objects,
// which the driver answers from memory. A route to that address is news from then on.
func TestLookAtFewWatchesNewAddresses(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	w.do(t, "add route 172.16.0.0/12 via 192.168.64.7 dev eth0 proto 186")
	extent := benchExtent
	extent.Reach = []netip.Addr{netip.MustParseAddr("172.16.9.1")}
	w.look(t, extent)
	extent.Reach, extent.Again = append(extent.Reach, netip.MustParseAddr("172.16.9.2")), []dataplane.Object{}
	w.look(t, extent)
	w.do(t, "add route 172.16.9.2/32 via 192.168.64.9 dev eth0 proto 186")
	if !must(w.d.hints.news()) {
		t.Error("a route to a new address is no news")
	}
}

// TestOthersTakeObjectsOver has another program turn the driver's objects into such as no longer
// look like its own: a neighbour and an FDB entry that age, and a next hop of no protocol. The
// same on keys that the last look did not read is no news.
func TestOthersTakeObjectsOver(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	other := must(Open(t.Context(), w.NS, drivertest.Secrets{}))
	defer other.Close()
	flannel := must(newLinks(w.d.query, w.d.wg).named("flannel.1")).index
	mine := ops(t,
		"replace neigh 10.5.3.0 lladdr 02:00:00:00:00:03 dev flannel.1",
		"replace fdb 02:00:00:00:00:03 dst 192.168.64.3 dev flannel.1",
		"replace nexthop 10.5.3.0 via 10.5.3.0 dev flannel.1 onlink",
	)
	theirs := ops(t,
		"replace neigh 10.5.4.0 lladdr 02:00:00:00:00:04 dev flannel.1",
		"replace fdb 02:00:00:00:00:04 dst 192.168.64.4 dev flannel.1",
		"replace nexthop 10.5.4.0 via 10.5.4.0 dev flannel.1 onlink",
	)
	apply(t, w.d, mine)
	w.look(t, benchExtent)
	for _, op := range theirs {
		other.takeOver(t, op.Object, flannel)
		if must(w.d.hints.news()) {
			t.Errorf("another program's own %q is news", op.Object)
		}
	}
	for _, op := range mine {
		other.takeOver(t, op.Object, flannel)
		if !must(w.d.hints.news()) {
			t.Errorf("it is no news that another program took over %q", op.Object)
		}
		apply(t, w.d, []dataplane.Op{op})
		wantObjects(t, "all", w.look(t, benchExtent), []dataplane.Op{op})
	}
}

// takeOver writes an object as no driver does.
func (d *Driver) takeOver(t *testing.T, object dataplane.Object, index int) {
	t.Helper()
	const kind, flags = unix.RTM_NEWNEIGH, unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	c := d.query
	switch v := object.(type) {
	case dataplane.Neigh:
		c.Begin(kind, flags)
		putNdmsg(c, unix.AF_INET, index, unix.NUD_STALE, 0)
		c.Out.AttrAddr(unix.NDA_DST, v.IP)
		c.Out.Attr(unix.NDA_LLADDR, v.MAC[:])
	case dataplane.FDBEntry:
		c.Begin(kind, flags)
		putNdmsg(c, unix.AF_BRIDGE, index, unix.NUD_REACHABLE, unix.NTF_SELF)
		c.Out.Attr(unix.NDA_LLADDR, v.MAC[:])
		c.Out.AttrAddr(unix.NDA_DST, v.Dst)
	case dataplane.NextHop:
		c.Begin(unix.RTM_NEWNEXTHOP, flags)
		c.Out.U8(unix.AF_INET, 0, 0, 0)
		c.Out.U32(unix.RTNH_F_ONLINK)
		c.Out.AttrU32(nhaID, uint32(v.ID))
		c.Out.AttrU32(nhaOIF, uint32(index))
		c.Out.AttrAddr(nhaGateway, v.Via.Next())
	}
	c.Out.End()
	if _, err := c.Do(); err != nil {
		t.Fatalf("take over %q: %v", object, err)
	}
}
