package cleanup

import (
	"testing"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
)

// TestEveryBackendsDevices fails when a backend names a device that cleanup does not know.
func TestEveryBackendsDevices(t *testing.T) {
	for _, spec := range all.Specs() {
		objects := []string{spec.Example()}
		for _, o := range spec.Options {
			if o.Example != "" {
				objects = append(objects, spec.Example(o))
			}
		}
		for _, families := range spec.Carries {
			network := map[backend.Families]string{
				backend.IPv4Only: `"Network":"10.5.0.0/16"`,
				backend.IPv6Only: `"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:10::/48"`,
				backend.Both:     `"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48"`,
			}[families]
			for _, object := range objects {
				text := `{` + network + `,"Backend":` + object + `}`
				parsed, err := config.Parse([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				b, err := spec.Open(parsed)
				if err != nil {
					continue // not every option fits every family
				}
				for _, name := range b.Extent().Links {
					if !nameOfDevice(name) {
						t.Errorf("%s: cleanup does not know the device %s", text, name)
					}
				}
			}
		}
	}
}

func TestWhichDevicesAreNotOurs(t *testing.T) {
	for _, c := range []struct{ link, why string }{
		{"link flannel.1 type vxlan mtu 1450 id 1 port 8472", ""},
		{"link fl.1.8472 type vxlan mtu 1450 id 1 port 8472", ""},
		{"link fl.1.8472 type vxlan mtu 1450 id 1 port 4789", "flannel gives no device of type vxlan this name"},
		{"link flannel-v6.4096 type vxlan mtu 1430 id 4096 port 4789", ""},
		{"link flannel0 type tun mtu 1472", ""},
		{"link flannel12 type tun mtu 1472", ""},
		{"link flannel.ipip type ipip mtu 1480 local 192.168.64.3", ""},
		{"link flannel-wg type wireguard mtu 1420", ""},
		{"link flannel-wg-v6 type wireguard mtu 1420 userspace", ""},
		{"link flannel.1 type vxlan mtu 1450 id 7 port 8472", "it has the VNI 7"},
		{"link flannel.1 type bridge mtu 1450", "flannel gives no device of type bridge this name"},
		{"link flannel0 type veth mtu 1500", "flannel gives no device of type veth this name"},
		{"link flannel-wg type tun mtu 1420", "flannel gives no device of type tun this name"},
		{"link flannel0 type tun mtu 1500 mac aa:56:63:85:a2:6b", "it is a TAP device"},
		{"link flannel.ipip type vxlan mtu 1450 id 1 port 8472", "flannel gives no device of type vxlan this name"},
	} {
		o, err := dataplane.ParseObject(c.link)
		if err != nil {
			t.Fatal(err)
		}
		if l := o.(dataplane.Link); notOurs(l) != c.why || !nameOfDevice(l.Name) {
			t.Errorf("%s: %q, want %q", l, notOurs(l), c.why)
		}
	}
	for _, name := range []string{
		"flannel", "flannel.x", "flannel.1.2", "flannel.01", "xflannel0", "cni0", "eth0", "flannel-v6", "flannel0a",
	} {
		if nameOfDevice(name) {
			t.Errorf("%s has a name of flannel's", name)
		}
	}
}
