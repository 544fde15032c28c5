package cleanup

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/dataplane"
)

// numbered are the names of the devices that upstream's backends number: a vxlan device has its
// VNI in its name, and udp's has the first free number.
var numbered = map[dataplane.LinkKind]*regexp.Regexp{
	dataplane.LinkVXLAN: regexp.MustCompile(`^flannel(?:-v6)?\.(0|[1-9][0-9]*)$`),
	dataplane.LinkTUN:   regexp.MustCompile(`^flannel(0|[1-9][0-9]*)$`),
}

// named are the names of the other devices.
var named = map[string]dataplane.LinkKind{
	"flannel.ipip":  dataplane.LinkIPIP,
	"flannel-wg":    dataplane.LinkWireGuard,
	"flannel-wg-v6": dataplane.LinkWireGuard,
}

// nameOfDevice reports whether a backend gives its devices such a name.
func nameOfDevice(name string) bool {
	if _, ok := named[name]; ok || all.NamesDevice(name) {
		return true
	}
	for _, pattern := range numbered {
		if pattern.MatchString(name) {
			return true
		}
	}
	return false
}

// notOurs returns the reason why a device with the name of one of flannel's is
// another program's, "" if it is flannel's.
func notOurs(l dataplane.Link) string {
	if kind, ok := named[l.Name]; ok && l.Kind() == kind || all.MakesDevice(l) {
		return ""
	}
	pattern, known := numbered[l.Kind()]
	if !known || !pattern.MatchString(l.Name) {
		return fmt.Sprintf("flannel gives no device of type %s this name", l.Kind())
	}
	if l.Kind() == dataplane.LinkTUN && !l.MAC.IsZero() {
		return "it is a TAP device"
	}
	vxlan, ok := l.Params.(dataplane.VXLAN)
	if !ok {
		return ""
	}
	number := pattern.FindStringSubmatch(l.Name)[1]
	if vni, err := strconv.ParseUint(number, 10, 32); err != nil || uint32(vni) != vxlan.VNI {
		return fmt.Sprintf("it has the VNI %d", vxlan.VNI)
	}
	return ""
}
