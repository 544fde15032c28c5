package linux

import (
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
)

// A look tells what another program has set on a vxlan device, and a Replace puts it right in place.
func TestForeignVXLANValues(t *testing.T) {
	for name, c := range map[string]struct{ link, set, other string }{
		"IPv4": {"local 192.168.64.3 port 8472", "ttl 1 tos 4 df set remote 192.168.64.9",
			"remote=192.168.64.9,ttl=1,tos=4,df=1"},
		"IPv6": {"local fd00:64::3 port 8472", "ttl 1 remote fd00:64::9", "remote=fd00:64::9,ttl=1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ip(t, "link add eth0 type veth peer name eth1")
			w.ip(t, "link set eth0 up")
			want := ops(t, "add link flannel.1 type vxlan mtu 1400 mac 02:00:00:00:00:44 up id 1 dev eth0 "+c.link)
			apply(t, w.d, want)
			w.ip(t, "link set flannel.1 type vxlan "+c.set)
			if got := w.vxlan(t).Other; got != c.other {
				t.Errorf("the device has %q, want %q", got, c.other)
			}
			want[0].Verb = dataplane.Replace
			apply(t, w.d, want)
			if got := w.vxlan(t).Other; got != "" {
				t.Errorf("the device still has %q", got)
			}
		})
	}
}

// vxlan returns the parameters of flannel.1.
func (w *world) vxlan(t *testing.T) dataplane.VXLAN {
	t.Helper()
	v, ok := w.look(t, dataplane.Extent{Links: []string{"flannel.1"}}).Links["flannel.1"].Params.(dataplane.VXLAN)
	if !ok {
		t.Fatal("there is no vxlan device flannel.1")
	}
	return v
}
