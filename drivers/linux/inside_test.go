package linux

import (
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// TestInside checks which links of a real host seem to lead to containers alone: bridges
// without other ports than veths, and veths without a network, if the other ends of these are elsewhere.
func TestInside(t *testing.T) {
	w := newWorld(t)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	named := func(name string) netlink.LinkAttrs { return netlink.LinkAttrs{Name: name} }
	pods, mixed := &netlink.Bridge{LinkAttrs: named("pods")}, &netlink.Bridge{LinkAttrs: named("mixed")}
	veth := func(name, peer string) *netlink.Veth {
		l := netlink.NewVeth(named(name))
		l.PeerName, l.PeerNamespace = peer, netlink.NsFd(w.farNS)
		return l
	}
	port := veth("port", "in-port")
	pod := veth("pod", "in-pod")
	wired := veth("wired", "far")
	uplink := &netlink.Vxlan{LinkAttrs: named("uplink"), VxlanId: 9, Port: 4789}
	for _, l := range []netlink.Link{pods, mixed, port, pod, wired, uplink} {
		do(w.host.LinkAdd(l))
	}
	do(w.host.LinkSetMaster(port, pods))
	for text, l := range map[string]netlink.Link{"10.9.0.1/24": pods, "10.9.9.1/32": pod, "10.8.0.1/24": wired} {
		do(w.host.AddrAdd(l, must(netlink.ParseAddr(text))))
	}
	inside := func() (names []string) {
		for _, l := range must(w.d.Look(t.Context(), dataplane.Extent{})).Facts.(driver.HostFacts).Links {
			if l.Inside {
				names = append(names, l.Name)
			}
		}
		slices.Sort(names)
		return names
	}
	want := func(names ...string) {
		t.Helper()
		if got := inside(); !slices.Equal(got, names) {
			t.Errorf("inside: %q, want %q", got, names)
		}
	}
	want("mixed", "pod", "pods", "port")
	do(w.host.LinkSetMaster(uplink, mixed))
	want("pod", "pods", "port")
	do(w.host.LinkSetNoMaster(uplink))
	do(w.host.AddrAdd(pod, must(netlink.ParseAddr("fd00:9::1/64"))))
	want("mixed", "pods", "port")

	// A pair that joins the bridge of the pods to one that other hosts are on.
	patch := veth("patch", "patched")
	patch.PeerNamespace = nil
	do(w.host.LinkAdd(patch))
	do(w.host.LinkSetMaster(patch, pods))
	want("mixed", "port")
}
