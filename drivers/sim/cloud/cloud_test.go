package cloud

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// testbed is two instances, whose router follows the tables.
type testbed struct {
	t      *testing.T
	world  *world.World
	cloud  *Cloud
	router *kernel.Host
}

func newTestbed(t *testing.T) *testbed {
	t.Helper()
	b := &testbed{t: t, world: world.New(1)}
	network := kernel.NewNetwork(b.world)
	g := network.NewSegment("segment0")
	b.router = network.NewHost("router")
	for i, h := range []*kernel.Host{b.router, network.NewHost("n1"), network.NewHost("n2")} {
		ip := netip.AddrFrom4([4]byte{192, 168, 64, byte(i + 1)})
		if _, err := h.AddUplink("eth0", g, netip.PrefixFrom(ip, 24)); err != nil {
			t.Fatal(err)
		}
	}
	b.cloud = New(network, b.router, netip.MustParsePrefix("192.168.64.0/24"))
	return b
}

// apply performs an op as a host's lane.
func (b *testbed) apply(host, op string) error {
	b.t.Helper()
	o, err := dataplane.ParseOp(op)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.cloud.Lane(host).Apply(b.t.Context(), []dataplane.Op{o})[0]
}

// shows returns what a host's look shows inside the overlay.
func (b *testbed) shows(host string) string {
	b.t.Helper()
	seen, err := b.cloud.Lane(host).Look(b.t.Context(), dataplane.Extent{})
	if err != nil {
		b.t.Fatal(err)
	}
	_, after, _ := strings.Cut("\n"+seen.State.Dump(), "\ncloud-route 10.5.1.0/24 ")
	text, _, _ := strings.Cut(after, "\n")
	return text
}

// way returns the router's next hop for the subnet of the tests.
func (b *testbed) way() string {
	r, ok := b.router.Route(dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.1.0/24")})
	if !ok {
		return ""
	}
	return string(r.Kind) + strings.TrimPrefix(r.Via.String(), "invalid IP")
}

const add = `add cloud-route 10.5.1.0/24 table "main" self`

// An entry is made once, deleted if it is still the one that was read, and followed by the router.
func TestEntries(t *testing.T) {
	b := newTestbed(t)
	if err := b.apply("n1", add); err != nil || b.way() != "192.168.64.2" || b.shows("n1") != `table "main" to "n1" self` {
		t.Errorf("created: %v, way %s, shows %s", err, b.way(), b.shows("n1"))
	}
	if err := b.apply("n2", add); !errors.Is(err, driver.ErrExists) {
		t.Errorf("created twice: %v", err)
	}
	if err := b.apply("n2", `del cloud-route 10.5.1.0/24 table "main" to "n7"`); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("another one deleted: %v", err)
	}
	b.cloud.EndInstance("n1", true)
	if b.way() != "blackhole" || b.shows("n2") != `table "main" to "n1" broken` {
		t.Errorf("ended: way %s, shows %s", b.way(), b.shows("n2"))
	}
	if err := b.apply("n2", `del cloud-route 10.5.1.0/24 table "main" to "n1"`); err != nil || b.way() != "" {
		t.Errorf("deleted: %v, way %s", err, b.way())
	}
	err := b.apply("n2", `del cloud-route 192.168.64.0/24 table "main" to "local"`)
	if !errors.Is(err, driver.ErrDenied) {
		t.Errorf("the provider's own: %v", err)
	}
	if err := b.apply("n2", `add cloud-route 10.5.1.0/24 table "x" self`); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("no such table: %v", err)
	}
}

func TestFaults(t *testing.T) {
	b := newTestbed(t)
	for _, f := range []Faults{{Throttled: 1}, {Denied: true}, {Quota: 1}} {
		b.cloud.SetFaults(f)
		if err := b.apply("n1", add); err == nil || errors.Is(err, driver.ErrBusy) != (f.Throttled > 0) {
			t.Errorf("%+v: %v", f, err)
		}
	}
	b.cloud.SetFaults(Faults{Stale: time.Minute, Slow: time.Second})
	b.world.Run(time.Hour)
	if err := b.apply("n1", add); err != nil || b.cloud.Lane("n1").Slower() != time.Second {
		t.Errorf("slow: %v", err)
	}
	b.world.Run(30 * time.Second)
	seen := map[string]int{}
	for range 100 {
		seen[b.shows("n2")]++
	}
	if seen[""] < 20 || seen[`table "main" to "n1"`] < 20 {
		t.Errorf("stale answers: %v", seen)
	}
	b.world.Run(time.Minute)
	if b.shows("n2") == "" {
		t.Error("an answer is older than a minute")
	}
}

// A host that is no instance has no tables.
func TestNoInstance(t *testing.T) {
	var none *Cloud
	if _, err := none.Lane("n1").Look(t.Context(), dataplane.Extent{}); err == nil {
		t.Error("a look at no table succeeds")
	}
	op, err := dataplane.ParseOp(add)
	if err != nil {
		t.Fatal(err)
	}
	if err := none.Lane("n1").Apply(t.Context(), []dataplane.Op{op})[0]; !errors.Is(err, driver.ErrUnsupported) {
		t.Error(err)
	}
	if none.Lane("n1").Slower() != 0 || none.Lane("n1").Hints() != nil || none.State("n1").Len() != 0 {
		t.Error("no instance has something")
	}
}
