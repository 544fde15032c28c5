package networks

import (
	"fmt"
	"slices"
	"strings"
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
		if !got.Beside.Anew || refusal(t, got) == "" {
			t.Errorf("%s: %+v, refused with %q", name, got.Beside, refusal(t, got))
		}
		if again := h.View(name, v); again.Snapshot != got.Snapshot {
			t.Errorf("%s sees another snapshot though nothing has changed", name)
		}
	}
	if v := h.View("red", red); v.Snapshot != red.Snapshot || refusal(t, v) != "" {
		t.Errorf("red: %+v", v)
	}
	h.Gone("blue")
	if v := h.View("blue", blue); refusal(t, v) == "" || v.Beside.Resumes || v.Beside.Anew {
		t.Errorf("blue, while green removes what it has: %+v", v.Beside)
	}
	if v := h.View("green", green); !v.Beside.Anew {
		t.Error("green keeps what it has once blue is gone")
	}
	h.Gone("green")
	for name, v := range map[string]lease.View{"blue": blue, "green": green} {
		if got := h.View(name, v); refusal(t, got) != "" || got.Beside.Anew {
			t.Errorf("%s, with both gone: %q", name, refusal(t, got))
		}
	}
	want := []string{"networks blue and green want what the others of them have on this host: each removes what it has " +
		"there, and begins anew with its new config"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
}

// swapping returns a host whose networks blue and green have begun to swap, and their new views.
func swapping(t *testing.T) (h *Host, blue, green lease.View) {
	t.Helper()
	h = swappers()
	blue, green = view(conf("10.5.0.0/16", `{"Type":"udp"}`), 8), view(conf("10.6.0.0/16", `{"Type":"vxlan"}`), 9)
	h.View("blue", blue)
	if v := h.View("green", green); !v.Beside.Anew {
		t.Fatalf("green: %+v", v.Beside)
	}
	return h, blue, green
}

// A network of a swap that is alone on the host by then still begins anew: its node keeps the former objects until
// it is told, and the host waits for their end.
func TestSwapOfWhichOneIsLeft(t *testing.T) {
	h, blue, _ := swapping(t)
	h.Leave("red")
	h.Leave("green")
	if v := h.View("blue", blue); !v.Beside.Anew {
		t.Errorf("blue, the last network of the host: %+v", v.Beside)
	}
	h.Gone("blue")
	if v := h.View("blue", blue); refusal(t, v) != "" || v.Beside.Anew {
		t.Errorf("blue, with nothing left on the host: %+v", v.Beside)
	}
}

// What one of them has by a former config only, as long as peers need it, keeps the others waiting like what it
// has by the present one.
func TestSwapForWhatAFormerConfigLeft(t *testing.T) {
	h := swappers()
	h.View("green", view(conf("10.6.0.0/16", `{"Type":"host-gw"}`), 8))
	blue, green := view(conf("10.5.0.0/16", `{"Type":"udp"}`), 9), view(conf("10.6.0.0/16", `{"Type":"vxlan"}`), 10)
	v := h.View("blue", blue)
	if v.Beside.Anew || !strings.Contains(refusal(t, v), "still has objects of a former config") {
		t.Errorf("blue, while green only has to remove its device: %+v", v.Beside)
	}
	h.View("green", green)
	if v := h.View("blue", blue); v.Beside.Anew {
		t.Errorf("blue, while green removes its device: %+v", v.Beside)
	}
	h.Hold("green", node.Holding{Links: []string{"flannel0"}, AtRest: true}) // it keeps it for a peer
	for name, v := range map[string]lease.View{"blue": blue, "green": green} {
		if got := h.View(name, v); !got.Beside.Anew {
			t.Errorf("%s: %+v", name, got.Beside)
		}
	}
}

// Two networks have moved to free parts of the host, and their nodes are removing the former ones. A second change of
// both wants these: to wait a moment is enough.
func TestNoSwapWhileNodesRemove(t *testing.T) {
	vxlan := func(vni int) string { return fmt.Sprintf(`{"Type":"vxlan","VNI":%d}`, vni) }
	h := NewHost("blue", "green")
	for i, vni := range []int{1, 3} {
		h.View("blue", view(conf("10.5.0.0/16", vxlan(vni)), int64(5+2*i)))
		h.View("green", view(conf("10.6.0.0/16", vxlan(vni+1)), int64(6+2*i)))
		h.Hold("blue", node.Holding{Links: []string{"flannel.1", "flannel.3"}[:1+i], AtRest: i == 0})
		h.Hold("green", node.Holding{Links: []string{"flannel.2", "flannel.4"}[:1+i], AtRest: i == 0})
	}
	blue, green := view(conf("10.5.0.0/16", vxlan(2)), 9), view(conf("10.6.0.0/16", vxlan(1)), 10)
	for range 2 {
		h.View("blue", blue)
		if v := h.View("green", green); v.Beside.Anew || refusal(t, v) == "" {
			t.Errorf("green, while blue has its device: %+v", v.Beside)
		}
	}
	h.Hold("blue", node.Holding{Links: []string{"flannel.3"}, AtRest: true})
	h.Hold("green", node.Holding{Links: []string{"flannel.4"}, AtRest: true})
	for name, v := range map[string]lease.View{"blue": blue, "green": green} {
		if got := h.View(name, v); got.Beside.Anew || refusal(t, got) != "" {
			t.Errorf("%s, with nothing in its way: %+v", name, got.Beside)
		}
	}
}

// A node at work for its peers is no reason to decide, which would show all networks all their records anew.
func TestNodesAtWorkDecideNothing(t *testing.T) {
	h := swappers()
	told := 0
	h.Follow("green", func() { told++ })
	for i := range 10 {
		h.Hold("blue", node.Holding{Links: []string{"flannel.1"}, AtRest: i%2 == 0})
	}
	if told > 0 {
		t.Errorf("green was told of %d decisions", told)
	}
}

// What a network of a swap is about to get no younger network takes before it. An older one, which waited for it
// before, does.
func TestSwapBesideOneThatBegins(t *testing.T) {
	const taken = "network red cannot run on this host beside network green: both need a device flannel.1; " +
		"change one of the configs"
	for name, c := range map[string]struct {
		revision   int64
		red, green string // the refusals at the end
	}{
		"a younger one": {20, taken, ""},
		"an older one": {7, "", "network green cannot run on this host beside network red: both need a device flannel.1; " +
			"change one of the configs"},
	} {
		t.Run(name, func(t *testing.T) {
			h, blue, green := swapping(t)
			h.Leave("red")
			h.Join("red", nil)
			red := view(conf("10.7.0.0/16", `{"Type":"vxlan"}`), c.revision)
			if got := refusal(t, h.View("red", red)); got == "" {
				t.Error("red gets a device that blue still has")
			}
			h.Gone("blue")
			h.Gone("green")
			if got := refusal(t, h.View("blue", blue)); got != "" {
				t.Errorf("blue: %q", got)
			}
			if got := refusal(t, h.View("red", red)); got != c.red {
				t.Errorf("red: %q, want %q", got, c.red)
			}
			if got := refusal(t, h.View("green", green)); got != c.green {
				t.Errorf("green: %q, want %q", got, c.green)
			}
		})
	}
}

// A network of a swap may leave the host, as one that comes and goes with its config does once its node has removed
// it, and come back before the others are done.
func TestSwapOfWhichOneComesBack(t *testing.T) {
	h, blue, green := swapping(t)
	h.Leave("blue")
	h.Join("blue", nil)
	if v := h.View("green", green); !v.Beside.Anew {
		t.Errorf("green, while blue is not known: %+v", v.Beside)
	}
	if v := h.View("blue", blue); !strings.Contains(refusal(t, v), "network green") || v.Beside.Anew {
		t.Errorf("blue, while green has its device: %+v", v.Beside)
	}
	h.Leave("green")
	h.Join("green", nil)
	for name, v := range map[string]lease.View{"blue": blue, "green": green} {
		h.View(name, v)
	}
	for name, v := range map[string]lease.View{"blue": blue, "green": green} {
		if got := h.View(name, v); refusal(t, got) != "" || got.Beside.Anew {
			t.Errorf("%s, with both back: %+v", name, got.Beside)
		}
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
				if h.View(name, views[name]).Beside.Anew {
					swap = append(swap, name)
				}
			}
			if !slices.Equal(swap, c.swap) {
				t.Errorf("%v begin anew, want %v", swap, c.swap)
			}
		})
	}
}
