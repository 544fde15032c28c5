package linux

import (
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
)

// Another program gives the device of a packet path another name. A device with the former name gets a path of its own.
func TestPathOfARenamedDevice(t *testing.T) {
	needTUN(t)
	w := newWorld(t)
	w.ip(t, "link add eth0 type veth peer name eth1")
	w.ip(t, "addr add 192.168.64.3/24 dev eth0")
	w.ip(t, "link set eth0 up")
	link := ops(t, "add link flannel0 type tun mtu 1472 up")
	path := ops(t, "replace proxy flannel0 local 192.168.64.3:8285 subnet 10.5.1.0/24 mtu 1472 offload auto")
	apply(t, w.d, link)
	apply(t, w.d, path)
	w.ip(t, "link set flannel0 name foo")
	apply(t, w.d, link)
	apply(t, w.d, path)
	state := w.look(t, dataplane.Extent{Links: []string{"flannel0", "foo"}})
	if len(state.Proxies) != 1 || state.Proxies["flannel0"].Link != "flannel0" {
		t.Errorf("paths %v, want one on flannel0", state.Proxies)
	}
}
