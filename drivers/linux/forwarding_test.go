package linux

import (
	"fmt"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// TestLinkForwards lets one link of a host forward packets that forwards none
// otherwise. That is of no use to the overlay, once this has a device.
func TestLinkForwards(t *testing.T) {
	form := [2]string{cidr.V4: "net/ipv4/conf/%s/forwarding", cidr.V6: "net/ipv6/conf/%s/force_forwarding"}
	for _, family := range cidr.Families {
		t.Run(family.String(), func(t *testing.T) {
			w := newWorld(t)
			w.withOverlay(t)
			setting := dataplane.Sysctl{Path: fmt.Sprintf(form[family], "eth0"), Value: "1"}
			set := func(s dataplane.Sysctl) error {
				return w.d.ns.Do(func() error { return writeSysctl(dataplane.Replace, s) })
			}
			off := func(links ...string) bool {
				seen := must(w.d.Look(t.Context(), dataplane.Extent{Links: links}))
				return seen.Facts.(driver.HostFacts).NoForwarding[family]
			}
			none := dataplane.Forwarding(family)
			none.Value = "0"
			if err := set(none); err != nil {
				t.Fatal(err)
			}
			if !off() {
				t.Error("the host forwards packets though it is told not to")
			}
			if err := set(setting); err != nil {
				t.Skipf("this kernel has no %s: %v", setting.Path, err)
			}
			if off() {
				t.Errorf("%s has no effect", setting)
			}
			if !off("flannel.1") {
				t.Errorf("%s, and a look takes this for the packets of flannel.1", setting)
			}
			setting.Path = fmt.Sprintf(form[family], "flannel.1")
			if err := set(setting); err != nil {
				t.Fatal(err)
			}
			if off("flannel.1") {
				t.Errorf("%s has no effect", setting)
			}
		})
	}
}
