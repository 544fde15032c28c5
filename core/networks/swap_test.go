package networks

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// swappers returns a host of three networks, each of which has a device of its own.
func swappers() *Host {
	h := NewHost("blue", "green", "red")
	h.View("blue", view(conf("10.5.0.0/16", `{"Type":"vxlan"}`), 5))
	h.View("green", view(conf("10.6.0.0/16", `{"Type":"udp"}`), 6))
	h.View("red", view(conf("10.7.0.0/16", `{"Type":"ipip"}`), 7))
	for name, link := range map[string]string{"blue": "flannel.1", "green": "flannel0", "red": "flannel.ipip"} {
		h.Hold(name, node.Holding{Links: []string{link}})
	}
	return h
}

// Networks that want what the others of them have begin anew, and none of the others does.
func TestNetworksThatSwapBeginAnew(t *testing.T) {
	h := swappers()
	var told []string
	h.Report(func(text string) { told = append(told, text) })
	blue, green := view(conf("10.5.0.0/16", `{"Type":"udp"}`), 8), view(conf("10.6.0.0/16", `{"Type":"vxlan"}`), 9)
	red := view(conf("10.7.0.0/16", `{"Type":"ipip"}`), 7)
	if v := h.View("blue", blue); v.Snapshot.Config.Revision != 8 || refusal(t, v) == "" {
		t.Errorf("blue, while green wants nothing else: %+v", v.Snapshot.Config)
	}
	h.View("green", green)
	for name, v := range map[string]lease.View{"blue": blue, "green": green} {
		got := h.View(name, v)
		if c := got.Snapshot.Config; c.Revision != 0 || !c.Deleted || c.AbsentAt != 100 || refusal(t, got) == "" {
			t.Errorf("%s sees the config %+v, refused with %q", name, c, refusal(t, got))
		}
		if again := h.View(name, v); again.Snapshot != got.Snapshot {
			t.Errorf("%s sees another snapshot though nothing has changed", name)
		}
	}
	if v := h.View("red", red); v.Snapshot != red.Snapshot || refusal(t, v) != "" {
		t.Errorf("red: %+v", v)
	}
	h.Gone("blue")
	if v := h.View("blue", blue); refusal(t, v) == "" || v.Beside.Resumes || v.Snapshot != blue.Snapshot {
		t.Errorf("blue, while green removes what it has: %+v", v.Beside)
	}
	if v := h.View("green", green); !v.Snapshot.Config.Deleted {
		t.Error("green keeps what it has once blue is gone")
	}
	h.Gone("green")
	for name, v := range map[string]lease.View{"blue": blue, "green": green} {
		if got := h.View(name, v); refusal(t, got) != "" || got.Snapshot != v.Snapshot {
			t.Errorf("%s, with both gone: %q", name, refusal(t, got))
		}
	}
	want := []string{"networks blue and green want what the others of them have on this host: each removes what it has " +
		"there, and begins anew with its new config"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
}

func TestWhoSwaps(t *testing.T) {
	const vxlan, other = `{"Type":"vxlan"}`, `{"Type":"vxlan","VNI":7}`
	const udp, ipip = `{"Type":"udp"}`, `{"Type":"ipip"}`
	for name, c := range map[string]struct {
		blue, green, red string
		holds            string // a device that red has of a former config
		swap             []string
	}{
		"three in a ring":               {udp, ipip, vxlan, "", []string{"blue", "green", "red"}},
		"two, and one that waits":       {udp, vxlan, udp, "", []string{"blue", "green"}},
		"one wants what another has":    {udp, udp, ipip, "", nil},
		"one moves out of the way":      {udp, other, ipip, "", nil},
		"the third has what two want":   {ipip, vxlan, ipip, "", nil},
		"the third still has a device":  {udp, vxlan, ipip, "flannel0", nil},
		"all want the same of each one": {udp, vxlan, vxlan, "", []string{"blue", "green"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := swappers()
			if c.holds != "" {
				h.Hold("red", node.Holding{Links: []string{"flannel.ipip", c.holds}})
			}
			views := map[string]lease.View{
				"blue": view(conf("10.5.0.0/16", c.blue), 8), "green": view(conf("10.6.0.0/16", c.green), 9),
				"red": view(conf("10.7.0.0/16", c.red), 10),
			}
			for _, name := range []string{"blue", "green", "red"} {
				h.View(name, views[name])
			}
			var swap []string
			for _, name := range []string{"blue", "green", "red"} {
				if h.View(name, views[name]).Snapshot.Config.Deleted {
					swap = append(swap, name)
				}
			}
			if !slices.Equal(swap, c.swap) {
				t.Errorf("%v begin anew, want %v", swap, c.swap)
			}
		})
	}
}

// A network opens no backend of a record whose device another network of the host has.
func TestRecordsWithoutTheBackendsOfOthers(t *testing.T) {
	h := NewHost("blue", "green")
	h.View("green", view(conf("10.6.0.0/16", `{"Type":"vxlan"}`), 6))
	v := view(conf("10.5.0.0/16", `{"Type":"udp"}`), 5)
	vxlan, second := json.RawMessage(`{"Type":"vxlan"}`), json.RawMessage(`{"Type":"vxlan","VNI":2}`)
	former := []lease.FormerWay{{Backend: vxlan}, {Backend: second}}
	records := []*lease.Lease{
		{Attrs: lease.Attrs{BackendType: "vxlan", BackendData: json.RawMessage(`{"VNI":1}`)}},
		{Attrs: lease.Attrs{BackendType: "host-gw", Ways: lease.Ways{Former: former}}},
		{Attrs: lease.Attrs{BackendType: "vxlan", BackendData: json.RawMessage(`{"VNI":2}`)}},
	}
	v.Snapshot.Leases = records
	got := h.View("blue", v).Snapshot
	if string(got.Leases[0].Attrs.Ways.Present) != `{}` || got.Leases[0].Attrs.BackendType != "vxlan" {
		t.Errorf("a record with green's device: %+v", got.Leases[0].Attrs)
	}
	if former := got.Leases[1].Attrs.Ways.Former; len(former) != 1 || string(former[0].Backend) != string(second) {
		t.Errorf("a record that names green's device as a former one: %+v", former)
	}
	if got.Leases[2] != records[2] || len(records[1].Attrs.Ways.Former) != 2 {
		t.Error("other records have changed")
	}
	if h.View("blue", v).Snapshot != got {
		t.Error("another snapshot though nothing has changed")
	}
	h.View("green", view("", 0))
	h.Gone("green")
	if h.View("blue", v).Snapshot.Leases[0] != records[0] {
		t.Error("with green gone, the record still lacks its backend")
	}
}
