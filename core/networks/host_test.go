package networks

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// conf returns a config with a network and a Backend object.
func conf(network, backend string) string {
	return fmt.Sprintf(`{"Network":%q,"Backend":%s}`, network, backend)
}

// view returns a view with a config of that revision; without a text there is none.
func view(text string, revision int64) lease.View {
	doc := lease.Document{Data: []byte(text), Revision: revision}
	if text == "" {
		doc = lease.Document{}
	}
	return lease.View{Snapshot: &lease.Snapshot{Revision: 100, Config: doc}, Synced: true}
}

// refusal returns the refusal that a network sees; "" for none.
func refusal(t *testing.T, v lease.View) string {
	t.Helper()
	if v.Beside == nil {
		t.Fatal("the view says nothing about other networks")
	}
	if v.Beside.Refused == nil {
		return ""
	}
	return v.Beside.Refused.Error()
}

func TestClaims(t *testing.T) {
	const vxlan1 = `{"Type":"vxlan"}`
	blue := conf("10.5.0.0/16", vxlan1)
	for name, c := range map[string]struct{ green, why string }{
		"another VNI":          {conf("10.6.0.0/16", `{"Type":"vxlan","VNI":2}`), ""},
		"same VNI":             {conf("10.6.0.0/16", vxlan1), "both need a device flannel.1"},
		"same VNI, other port": {conf("10.6.0.0/16", `{"Type":"vxlan","Port":4789}`), "both need a device flannel.1"},
		"overlapping addresses": {conf("10.5.128.0/17", `{"Type":"host-gw"}`),
			"its addresses 10.5.128.0/17 overlap with 10.5.0.0/16"},
		"another backend": {conf("10.6.0.0/16", `{"Type":"udp"}`), ""},
		"same port": {conf("10.6.0.0/16", `{"Type":"udp","Port":8472}`),
			"both listen at UDP port 8472"},
		"no device at all": {conf("10.6.0.0/16", `{"Type":"host-gw"}`), ""},
		"IPv6 alone": {`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:6::/48",` +
			`"Backend":{"Type":"vxlan","VNI":2}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHost("blue", "green")
			h.View("blue", view(blue, 5))
			got := refusal(t, h.View("green", view(c.green, 6)))
			want := ""
			if c.why != "" {
				want = "network green cannot run on this host beside network blue: " + c.why + "; change one of the configs"
			}
			if got != want {
				t.Errorf("green: %q, want %q", got, want)
			}
			if got := refusal(t, h.View("blue", view(blue, 5))); got != "" {
				t.Errorf("blue, which is older: %q", got)
			}
		})
	}
}

// Two networks with devices of a fixed name, or with one IKE daemon, do not fit.
func TestBackendsOnceOnAHost(t *testing.T) {
	psk := strings.Repeat("x", 96)
	for backend, twice := range map[string]bool{
		`{"Type":"udp"}`: false, `{"Type":"ipip"}`: false, `{"Type":"wireguard"}`: false,
		`{"Type":"ipsec","PSK":"` + psk + `"}`: false, `{"Type":"host-gw"}`: true, `{"Type":"alloc"}`: true,
		`{"Type":"extension"}`: true,
	} {
		h := NewHost("blue", "green")
		h.View("blue", view(conf("10.5.0.0/16", backend), 5))
		if got := refusal(t, h.View("green", view(conf("10.6.0.0/16", backend), 6))); (got == "") != twice {
			t.Errorf("%s: %q", backend, got)
		}
	}
}

// The older config wins, in whichever order the two are read.
func TestOlderNetworkKeepsItsClaims(t *testing.T) {
	h := NewHost("blue", "green")
	told := 0
	h.Follow("green", func() { told++ })
	green, blue := view(conf("10.5.0.0/16", `{"Type":"vxlan"}`), 6), view(conf("10.5.0.0/16", `{"Type":"udp"}`), 5)
	early := h.View("green", green)
	if early.Snapshot != nil || early.Synced || early.Err == nil ||
		early.Err.Error() != "the config of network blue is not yet known" {
		t.Errorf("before blue is known, green sees %+v", early)
	}
	if got := refusal(t, h.View("blue", blue)); got != "" {
		t.Errorf("blue: %q", got)
	}
	if told != 1 {
		t.Errorf("green was told %d times that blue is known, want once", told)
	}
	if got := refusal(t, h.View("green", green)); got == "" {
		t.Error("green, which is younger, is not refused")
	}
}

// A network that runs keeps what it has, whatever the others want later, until it is gone.
func TestRunningNetworkKeepsItsClaims(t *testing.T) {
	h := NewHost("blue", "green")
	green := view(conf("10.6.0.0/16", `{"Type":"udp"}`), 6)
	h.View("blue", view(conf("10.5.0.0/16", `{"Type":"vxlan"}`), 5))
	h.View("green", green)

	wrong := h.View("blue", view(conf("10.6.0.0/16", `{"Type":"vxlan"}`), 7))
	if got := refusal(t, wrong); !strings.Contains(got, "network blue cannot run on this host beside network green") {
		t.Errorf("blue: %q", got)
	}
	if got := refusal(t, h.View("green", green)); got != "" {
		t.Errorf("green: %q", got)
	}
	want := []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16")} // blue goes on with its former config
	beside := h.View("green", green).Beside
	if !slices.Equal(beside.Others, want) {
		t.Errorf("green keeps apart from %s, want %s", beside.Others, want)
	}
	if !beside.HasDevice("flannel.1") || beside.HasDevice("flannel0") {
		t.Errorf("green leaves %q alone, want blue's device", beside.Devices)
	}

	h.View("green", view("", 0))
	if got := refusal(t, h.View("blue", view(conf("10.6.0.0/16", `{"Type":"vxlan"}`), 7))); got == "" {
		t.Error("blue takes the addresses while green's objects may still be on the host")
	}
	told := 0
	h.Follow("blue", func() { told++ })
	h.Gone("green")
	if told != 1 {
		t.Errorf("blue was told %d times that green is gone, want once", told)
	}
	if got := refusal(t, h.View("blue", view(conf("10.6.0.0/16", `{"Type":"vxlan"}`), 7))); got != "" {
		t.Errorf("blue, with green gone: %q", got)
	}
}

// What a network has by a former config stays its own until its node has removed it.
func TestClaimsOfAFormerConfig(t *testing.T) {
	former := node.Holding{Links: []string{"flannel.1"}, Networks: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16")}}
	former.Ports = []backend.UDPPort{{Number: 8472, Shared: true}}
	present := node.Holding{Links: []string{"flannel.7"},
		Networks: []netip.Prefix{netip.MustParsePrefix("10.7.0.0/16")}}
	present.Ports = []backend.UDPPort{{Number: 4789, Shared: true}}
	both := node.Holding{
		Links: append(former.Links, present.Links...), Networks: append(former.Networks, present.Networks...),
		Ports: append(former.Ports, present.Ports...),
	}
	for name, c := range map[string]struct{ green, why string }{
		"its device":    {conf("10.6.0.0/16", `{"Type":"vxlan"}`), "both need a device flannel.1"},
		"its port":      {conf("10.6.0.0/16", `{"Type":"udp","Port":8472}`), "both listen at UDP port 8472"},
		"its addresses": {conf("10.5.0.0/17", `{"Type":"host-gw"}`), "its addresses 10.5.0.0/17 overlap with 10.5.0.0/16"},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHost("blue", "green")
			h.View("blue", view(conf("10.5.0.0/16", `{"Type":"vxlan"}`), 5))
			h.View("green", view(conf("10.6.0.0/16", `{"Type":"vxlan","VNI":2}`), 6))
			h.Hold("blue", former)
			blue := view(conf("10.7.0.0/16", `{"Type":"vxlan","VNI":7,"Port":4789}`), 7)
			if got := refusal(t, h.View("blue", blue)); got != "" {
				t.Fatalf("blue: %q", got)
			}
			want := "network green cannot run on this host yet: network blue still has objects of a former config there, and " +
				c.why + "; it begins as soon as they are gone"
			green := view(c.green, 8)
			if got := refusal(t, h.View("green", green)); got != want {
				t.Errorf("before blue's node knows its new config: %q, want %q", got, want)
			}
			h.Hold("blue", both)
			if got := refusal(t, h.View("green", green)); got != want {
				t.Errorf("while blue has both: %q, want %q", got, want)
			}
			told := 0
			h.Follow("green", func() { told++ })
			h.Hold("blue", present)
			h.Hold("blue", present)
			if got := refusal(t, h.View("green", green)); got != "" || told != 1 {
				t.Errorf("once blue has let go: %q, told %d times, want once", got, told)
			}
		})
	}
}

// Blue's config changes before its node has told anything: the node may still make the device of the former one.
func TestClaimsOfAConfigThatTheNodeMayStillFollow(t *testing.T) {
	h := NewHost("blue", "green")
	h.View("blue", view(conf("10.5.0.0/16", `{"Type":"vxlan"}`), 5))
	h.View("green", view(conf("10.6.0.0/16", `{"Type":"vxlan","VNI":2}`), 6))
	h.View("blue", view(conf("10.5.0.0/16", `{"Type":"vxlan","VNI":7}`), 7))
	green := view(conf("10.6.0.0/16", `{"Type":"vxlan"}`), 8)
	if got := refusal(t, h.View("green", green)); !strings.Contains(got, "both need a device flannel.1") {
		t.Errorf("before blue's node has told what it has: %q", got)
	}
	h.Hold("blue", node.Holding{Links: []string{"flannel.7"}})
	if got := refusal(t, h.View("green", green)); got != "" {
		t.Errorf("once blue's node has only its new device: %q", got)
	}
}

// A restart comes between the change of a config and the removal of what the former one needed.
func TestClaimsOfAFormerRun(t *testing.T) {
	h := NewHost()
	h.Join("blue", []byte(`{"Version":1,"Links":["flannel.1"],"Networks":["10.5.0.0/16"]}`))
	h.Join("green", []byte("torn"))
	h.View("green", view(conf("10.6.0.0/16", `{"Type":"vxlan"}`), 5))
	h.View("blue", view(conf("10.5.0.0/16", `{"Type":"vxlan","VNI":7}`), 6))
	green := view(conf("10.6.0.0/16", `{"Type":"vxlan"}`), 5)
	if got := refusal(t, h.View("green", green)); !strings.Contains(got, "objects of a former config") {
		t.Errorf("green, whose config is the older one: %q", got)
	}
	own := []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16")}
	h.Hold("blue", node.Holding{Links: []string{"flannel.7"}, Networks: own})
	if got := refusal(t, h.View("green", green)); got != "" {
		t.Errorf("green, with blue's previous device gone: %q", got)
	}
}

// Two networks want what the other one had. Until both have removed that, they are refused, also after a restart.
func TestNetworksThatWantToSwap(t *testing.T) {
	state := func(device, network, backend string) []byte {
		return fmt.Appendf(nil, `{"Version":1,"Links":[%q],"Networks":[%q],"Snapshot":{"Config":{"Data":%q}}}`,
			device, network, base64.StdEncoding.EncodeToString([]byte(conf(network, backend))))
	}
	h := NewHost()
	h.Join("blue", state("flannel0", "10.5.0.0/16", `{"Type":"udp"}`))
	h.Join("green", state("flannel.1", "10.6.0.0/16", `{"Type":"vxlan"}`))
	blue, green := view(conf("10.5.0.0/16", `{"Type":"vxlan"}`), 7), view(conf("10.6.0.0/16", `{"Type":"udp"}`), 8)
	h.View("green", green)
	for name, v := range map[string]lease.View{"blue": h.View("blue", blue), "green": h.View("green", green)} {
		if refusal(t, v) == "" || !v.Beside.Resumes {
			t.Errorf("%s: refused with %q, goes on with its former config: %t", name, refusal(t, v), v.Beside.Resumes)
		}
	}
	h.View("green", view(conf("10.6.0.0/16", `{"Type":"host-gw"}`), 9))
	h.Hold("green", node.Holding{Networks: []netip.Prefix{netip.MustParsePrefix("10.6.0.0/16")}})
	if v := h.View("blue", blue); refusal(t, v) != "" || v.Beside.Resumes {
		t.Errorf("blue, with green's device gone: %+v", v.Beside)
	}
}

// A config that no node can use takes nothing.
func TestBadConfigClaimsNothing(t *testing.T) {
	h := NewHost("blue", "green")
	h.View("blue", view(`{"Network":"10.5.0.0/16","Backend":{"Type":"nonsense"}}`, 5))
	if got := refusal(t, h.View("green", view(conf("10.5.0.0/16", `{"Type":"vxlan"}`), 6))); got != "" {
		t.Errorf("green: %q", got)
	}
}

// The networks hear of a decision in one order, so that a simulation repeats.
func TestDecisionsAreToldInOrder(t *testing.T) {
	names := strings.Split("abcdefghij", "")
	h := NewHost(names...)
	var told []string
	for _, name := range names {
		h.Follow(name, func() { told = append(told, name) })
	}
	for _, name := range slices.Backward(names) {
		h.View(name, lease.View{Snapshot: &lease.Snapshot{}})
	}
	if !slices.Equal(told, names) {
		t.Errorf("told in the order %v", told)
	}
}
