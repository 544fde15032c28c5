package linux

import (
	"fmt"
	"slices"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// TestLinkForwards lets one link of a host forward packets that forwards none
// otherwise.
func TestLinkForwards(t *testing.T) {
	form := [2]string{cidr.V4: "net/ipv4/conf/%s/forwarding", cidr.V6: "net/ipv6/conf/%s/force_forwarding"}
	for _, family := range cidr.Families {
		t.Run(family.String(), func(t *testing.T) {
			w := newWorld(t)
			w.withOverlay(t)
			set := func(s dataplane.Sysctl) error {
				return w.d.ns.Do(func() error { return writeSysctl(dataplane.Replace, s) })
			}
			off := func(link string) bool {
				links := must(w.d.Look(t.Context(), dataplane.Extent{})).Facts.(driver.HostFacts).Links
				i := slices.IndexFunc(links, func(l driver.Link) bool { return l.Name == link })
				return links[i].NoForwarding[family]
			}
			none := dataplane.Forwarding(family)
			none.Value = "0"
			if err := set(none); err != nil {
				t.Fatal(err)
			}
			if !off("eth0") || !off("flannel.1") {
				t.Error("the host forwards packets though it is told not to")
			}
			setting := dataplane.Sysctl{Path: fmt.Sprintf(form[family], "flannel.1"), Value: "1"}
			if err := set(setting); err != nil {
				t.Skipf("this kernel has no %s: %v", setting.Path, err)
			}
			if off("flannel.1") {
				t.Errorf("%s has no effect", setting)
			}
			if !off("eth0") {
				t.Errorf("%s, and a look takes this for the packets of eth0", setting)
			}
		})
	}
}
