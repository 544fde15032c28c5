package dataplane

import (
	"net/netip"
	"testing"
)

func TestBecome(t *testing.T) {
	v := VXLAN{VNI: 1, Parent: "eth0", Local: netip.MustParseAddr("192.168.64.3"), Port: 8472}
	with := func(change func(*VXLAN)) LinkParams {
		w := v
		change(&w)
		return w
	}
	for _, c := range []struct {
		what       string
		have, want LinkParams
		err        string
	}{
		{"equal", v, v, ""},
		{"another local address", v, with(func(v *VXLAN) { v.Local = netip.MustParseAddr("192.168.64.9") }), ""},
		{"another parent", v, with(func(v *VXLAN) { v.Parent = "eth1" }), ""},
		{"learning", v, with(func(v *VXLAN) { v.Learning = true }), ""},
		{"no parent", v, with(func(v *VXLAN) { v.Parent = "" }), "the parent cannot be removed"},
		{"another VNI", v, with(func(v *VXLAN) { v.VNI = 2 }), "VNI is 1 and cannot become 2"},
		{"another port", v, with(func(v *VXLAN) { v.Port = 4789 }), "port is 8472 and cannot become 4789"},
		{"GBP", v, with(func(v *VXLAN) { v.GBP = true }), "GBP is false and cannot become true"},
		{"another kind", OtherLink("veth"), v, "kind is veth and cannot become vxlan"},
		{"no kind", nil, nil, ""},
		{"TUN", TUN{}, TUN{}, ""},
		{"IPIP, all but the remote address", IPIP{Local: v.Local}, IPIP{Parent: "eth1", TTL: 9, PMTUDisc: true}, ""},
		{"IPIP, a remote address", IPIP{}, IPIP{Remote: v.Local},
			"a tunnel with a remote address cannot become one without, or the reverse"},
		{"WireGuard, port and key", WireGuard{ListenPort: 1}, WireGuard{ListenPort: 2, PublicKey: PublicKey{1}}, ""},
		{"WireGuard, userspace", WireGuard{}, WireGuard{Userspace: true}, "userspace is false and cannot become true"},
		{"a kind we do not make", OtherLink("veth"), OtherLink("veth"), ""},
	} {
		text := ""
		if err := (Link{Params: c.have}).Become(Link{Params: c.want}); err != nil {
			text = err.Error()
		}
		if text != c.err {
			t.Errorf("%s: error %q, want %q", c.what, text, c.err)
		}
	}
}

// TestLinkWordsOfOtherKinds tries words of a vxlan on links that have no such parameters.
func TestLinkWordsOfOtherKinds(t *testing.T) {
	for _, kind := range []string{"tun", "veth"} {
		line := "link x type " + kind + " mtu 1450 id 1"
		if _, err := ParseObject(line); err == nil || err.Error() != `object "`+line+`": unexpected "id"` {
			t.Errorf("%s: error %v", line, err)
		}
	}
}
