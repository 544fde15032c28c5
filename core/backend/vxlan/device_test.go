package vxlan

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// The device gets each of its options, and port 0 is the kernel's default.
func TestDeviceOptions(t *testing.T) {
	for options, want := range map[string]dataplane.VXLAN{
		"":                 {VNI: 1, Port: KernelPort},
		`,"Port":0`:        {VNI: 1, Port: KernelPort},
		`,"Port":4789`:     {VNI: 1, Port: 4789},
		`,"VNI":7`:         {VNI: 7, Port: KernelPort},
		`,"Learning":true`: {VNI: 1, Port: KernelPort, Learning: true},
		`,"GBP":true`:      {VNI: 1, Port: KernelPort, GBP: true},
	} {
		b, env := newBackend(t, dual(options))
		state, _ := b.Render(env, backend.Self{Key: key("10.5.34.0-24&fd00:10:0:1::-64")}, nil)
		if len(state.Links) != 2 {
			t.Errorf("%s: links %v", options, state.Links)
		}
		for name, link := range state.Links {
			got := link.Params.(dataplane.VXLAN)
			got.Parent, got.Local = "", want.Local
			if got != want {
				t.Errorf("%s: %s is %+v, want %+v", options, name, got, want)
			}
		}
	}
}

// The extent names each device with its setting, so that a look reads both.
func TestExtent(t *testing.T) {
	b, _ := newBackend(t, dual(""))
	e := b.Extent()
	want := []dataplane.Sysctl{
		{Path: "net/ipv6/conf/flannel.1/accept_ra", Value: "0", Link: "flannel.1"},
		{Path: "net/ipv6/conf/flannel-v6.1/accept_ra", Value: "0", Link: "flannel-v6.1"},
		{Path: "net/ipv6/conf/flannel-v6.1/disable_ipv6", Value: "0", Link: "flannel-v6.1"},
	}
	if !slices.Equal(e.Links, []string{"flannel.1", "flannel-v6.1"}) || !slices.Equal(e.Sysctls, want) {
		t.Errorf("%+v", e)
	}
	only4, _ := newBackend(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	if off := only4.Extent(); !slices.Equal(off.Links, e.Links) || len(off.Sysctls) != 1 {
		t.Errorf("with IPv6 off: %+v", off)
	}
}

// A note tells operators of an MTU that the uplink cannot carry.
func TestNotes(t *testing.T) {
	for options, want := range map[string]int{"": 0, `,"MTU":1499`: 0, `,"MTU":1500`: 0, `,"MTU":1501`: 1} {
		b, env := newBackend(t, dual(options))
		if got := b.Notes(env); len(got) != want {
			t.Errorf("%s: notes %q, want %d", options, got, want)
		}
	}
}

// A record that does not parse is as good as none, and so is a device of another
// kind that has our name.
func TestMACThatCannotBeUsed(t *testing.T) {
	b, env := newBackend(t, dual(""))
	bad := peer("10.5.34.0-24", "192.168.64.3", "fd00:a::3", "01:00:5e:00:00:01", "no").Attrs
	have := dataplane.NewState()
	have.AddLink(dataplane.Link{Name: "flannel.1", MAC: dataplane.MAC{2, 0, 0, 0, 0, 7}, Params: dataplane.TUN{}})
	a, err := b.Attrs(env, bad, have, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[dataplane.MAC]bool{}
	for _, data := range [][]byte{a.BackendData, a.BackendV6Data} {
		mac, err := parseMAC(data)
		if err != nil || mac == (dataplane.MAC{2, 0, 0, 0, 0, 7}) {
			t.Errorf("%s: %v", data, err)
		}
		for i, octet := range mac {
			if octet == 0 {
				t.Errorf("octet %d of %s is not drawn", i, mac)
			}
		}
		drawn[mac] = true
	}
	if len(drawn) != 2 {
		t.Errorf("both devices have one MAC: %v", drawn)
	}
	if own := (lease.Attrs{}); own.Equal(a) {
		t.Error("nothing is published")
	}
}
