package node

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/firewall"
)

// lines returns the lines and notes of all lanes.
func (w *world) lines() []string {
	var lines []string
	for _, d := range w.n.Differences() {
		for _, l := range d.Lines {
			text := l.Sign + " " + l.Object
			if l.Why != "" {
				text += " # " + l.Why
			}
			lines = append(lines, text)
		}
		lines = append(lines, d.Notes...)
	}
	return lines
}

func (w *world) wantLines(want ...string) {
	w.t.Helper()
	if got := w.lines(); !slices.Equal(got, want) {
		w.t.Errorf("the difference is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A healed host has no difference. A host that refuses changes has those that the
// node wants.
func TestDifferences(t *testing.T) {
	w := readyWorld(t)
	w.wantLines()
	w.applyErr = func(op dataplane.Op) error { return fmt.Errorf("%s: %w", op.Object, driver.ErrBusy) }
	r, _ := w.host.Routes.Get(dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.4.0/24")})
	r.Via, r.OnLink = netip.Addr{}, false
	w.host.AddRoute(r)
	foreign := dataplane.Route{RouteKey: dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.9.0/24")},
		Link: "flannel.1", Protocol: dataplane.Protocol}
	w.host.AddRoute(foreign)
	w.host.FDB.DeleteFunc(func(_ dataplane.FDBKey, e dataplane.FDBEntry) bool {
		return e.Dst == netip.MustParseAddr("192.168.64.5")
	})
	w.pass(time.Minute)
	lines := w.lines()
	want := []string{
		"+ fdb c6:00:00:00:00:05 dst 192.168.64.5 dev flannel.1",
		"- route 10.5.4.0/24 dev flannel.1",
		"+ route 10.5.4.0/24 via 10.5.4.0 dev flannel.1 onlink",
		"- route 10.5.9.0/24 dev flannel.1",
	}
	if len(lines) != len(want)+3 || !slices.Equal(lines[:len(want)], want) || !strings.Contains(lines[4], "busy") {
		t.Errorf("the difference is\n%s", strings.Join(lines, "\n"))
	}
	w.applyErr = nil
	w.pass(time.Minute)
	w.wantReady()
	w.wantLines()
}

// An object that the kernel refuses stays in the difference, with the reason.
func TestDifferenceOfARefusedPeer(t *testing.T) {
	w := readyWorld(t)
	w.applyErr = func(op dataplane.Op) error {
		if r, ok := op.Object.(dataplane.Route); ok && r.Dst == netip.MustParsePrefix("10.5.4.0/24") {
			return driver.ErrInvalid
		}
		return nil
	}
	w.host.Routes.DeleteFunc(every)
	w.pass(time.Minute)
	w.wantReady()
	w.wantLines("+ route 10.5.4.0/24 via 10.5.4.0 dev flannel.1 onlink # " + driver.ErrInvalid.Error())
}

// Deletes that wait for the datastore are noted.
func TestDifferenceWhileTheStoreIsAway(t *testing.T) {
	w := readyWorld(t)
	w.remove(mustKey("10.5.3.0-24"))
	v := w.view()
	v.Synced = false
	w.run(Input{View: v})
	w.pass(time.Minute)
	w.wantLines("3 objects of departed peers are deleted once the datastore answers")
}

// The tables of a lane are the states that it compared last.
func TestTables(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.Firewall = firewall.Options{Forward: true} })
	w.firewall.facts.Tools[cidr.V4].NFTables = driver.Tool{Usable: true, About: "nft 1.0.9"}
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	tables := w.n.Tables()
	if len(tables) != 2 || tables[0].Lane != "host" || tables[1].Lane != "firewall" {
		t.Fatalf("%+v", tables)
	}
	for _, table := range tables {
		if want := table.Want.Dump(); want != table.Have.Dump() || want == "" || table.LastLook.IsZero() {
			t.Errorf("%s wants\n%shas\n%s", table.Lane, want, table.Have.Dump())
		}
	}
	if got := w.status().Firewall; got != "nft 1.0.9" {
		t.Errorf("the firewall is %q", got)
	}
}

// A look shows what has changed since the last comparison, also while the node cannot compare again.
func TestDifferenceOfALaterLook(t *testing.T) {
	route := func(dst, rest string) dataplane.Route {
		o, err := dataplane.ParseObject("route " + dst + " " + rest)
		if err != nil {
			t.Fatal(err)
		}
		return o.(dataplane.Route)
	}
	anew := route("10.5.4.0/24", "via 10.5.4.0 dev flannel.1 onlink proto 102")
	former := route("10.5.4.0/24", "dev flannel.1 proto 102")
	gone := route("10.5.9.0/24", "dev flannel.1 proto 102")
	for _, c := range []struct {
		name string
		ops  []dataplane.Op
		have []dataplane.Object
		want []Line
	}{
		{"missing", []dataplane.Op{{Verb: dataplane.Create, Object: anew}}, nil, []Line{{Sign: "+", Object: anew.String()}}},
		{"made since", []dataplane.Op{{Verb: dataplane.Create, Object: anew}}, []dataplane.Object{anew}, nil},
		{"deleted since", []dataplane.Op{{Verb: dataplane.Delete, Object: gone}}, nil, nil},
		{"present", []dataplane.Op{{Verb: dataplane.Delete, Object: gone}}, []dataplane.Object{gone},
			[]Line{{Sign: "-", Object: gone.String()}}},
		{"deleted to make way", []dataplane.Op{
			{Verb: dataplane.Delete, Object: former}, {Verb: dataplane.Replace, Object: anew},
		}, []dataplane.Object{former}, []Line{{Sign: "-", Object: former.String()}, {Sign: "+", Object: anew.String()}}},
		{"made again with its device", []dataplane.Op{{Verb: dataplane.Replace, Object: anew}},
			[]dataplane.Object{anew}, nil},
		{"deleted and made as it was", []dataplane.Op{
			{Verb: dataplane.Delete, Object: anew}, {Verb: dataplane.Create, Object: anew},
		}, []dataplane.Object{anew}, []Line{{Sign: "-", Object: anew.String()}, {Sign: "+", Object: anew.String()}}},
		{"on a renamed device, and on the new one of its former name", []dataplane.Op{
			{Verb: dataplane.Replace, Object: dataplane.Link{Name: "fl.1.8472", Was: "flannel.1"}},
			{Verb: dataplane.Delete, Object: route("10.5.4.0/24", "via 10.5.4.0 dev fl.1.8472 onlink proto 102")},
			{Verb: dataplane.Create, Object: anew},
		}, []dataplane.Object{dataplane.Link{Name: "flannel.1"}, anew},
			[]Line{{Sign: "+", Object: dataplane.Link{Name: "fl.1.8472"}.String()}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			have := dataplane.NewState()
			for _, o := range c.have {
				have.Put(o)
			}
			if got := linesOf(c.ops, have); !slices.Equal(got, c.want) {
				t.Errorf("the lines are %v, want %v", got, c.want)
			}
		})
	}
}

// The reason of a line does not repeat the object.
func TestReason(t *testing.T) {
	o := dataplane.Route{RouteKey: dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.4.0/24")}, Link: "eth0"}
	for text, want := range map[string]string{
		"add " + o.String() + ": no such gateway":  "no such gateway",
		o.String() + ": an address covers it":      "an address covers it",
		"foreign " + o.String() + " drops packets": "drops packets",
		"no memory":                             "no memory",
		"no memory: no place for " + o.String(): "no memory: no place for " + o.String(),
	} {
		if got := reasonOf(errors.New(text), o); got != want {
			t.Errorf("the reason of %q is %q, want %q", text, got, want)
		}
	}
}
