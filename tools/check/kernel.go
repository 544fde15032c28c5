package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/backend/ipip"
	"github.com/flanneld/flannel/core/backend/ipsec"
	"github.com/flanneld/flannel/core/backend/udp"
	"github.com/flanneld/flannel/core/backend/vxlan"
	"github.com/flanneld/flannel/core/backend/wireguard"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// The settings that matter, below /proc/sys.
const (
	bridgeV4 = "net/bridge/bridge-nf-call-iptables"
	bridgeV6 = "net/bridge/bridge-nf-call-ip6tables"
)

// need is a part of the kernel that a backend needs.
type need struct {
	modules []string
	tun     bool
	// without says what happens without the modules; "" means that the backend does
	// not work.
	without string
}

// needs are those of each backend; the others need nothing.
var needs = map[string]need{
	vxlan.Type: {modules: []string{"vxlan"}},
	ipip.Type:  {modules: []string{"ipip"}},
	udp.Type:   {tun: true},
	ipsec.Type: {modules: []string{"xfrm_user", "esp4"}},
	wireguard.Type: {modules: []string{"wireguard"},
		without: "flanneld then carries the packets itself, which is slower and needs /dev/net/tun"},
}

// families returns the families of the network; IPv4 alone if no network is known.
func (f *Facts) families() []cidr.Family {
	if f.Network == nil {
		return []cidr.Family{cidr.V4}
	}
	return slices.DeleteFunc(slices.Clone(cidr.Families[:]), func(family cidr.Family) bool {
		return !f.Network.Of(family).Enabled()
	})
}

// backend returns the type of the backend, "" if no config is known.
func (f *Facts) backend() string {
	if f.Network == nil {
		return ""
	}
	return cmp.Or(f.Network.Backend.Type, all.Default)
}

// modules judges the parts of the kernel that the backend needs.
func (f *Facts) modules() []Finding {
	want, known := needs[f.backend()]
	if !known {
		return nil
	}
	topic := "kernel"
	var found []Finding
	for _, name := range want.modules {
		text := fmt.Sprintf("module %s, which the backend %s needs", name, f.backend())
		switch state := f.Modules[name]; {
		case state == Loaded || state == Loadable:
			found = append(found, Finding{Level: OK, Topic: topic, Text: fmt.Sprintf("%s: %s", text, state)})
		case state == Unsure:
			found = append(found, Finding{Level: Warning, Topic: topic, Remedy: "modprobe " + name,
				Text: text + ": it is not loaded, and this host has no list of its modules"})
		case want.without != "":
			found = append(found, Finding{Level: Warning, Topic: topic, Remedy: "modprobe " + name,
				Text: text + ": missing; " + want.without})
		default:
			found = append(found, Finding{Level: Failure, Topic: topic, Remedy: "modprobe " + name,
				Text: text + ": missing; install the package with the kernel's extra modules, or choose another backend"})
		}
	}
	if want.tun && f.TUN {
		found = append(found, Finding{Level: OK, Topic: topic, Text: "/dev/net/tun exists"})
	} else if want.tun {
		found = append(found, Finding{Level: Failure, Topic: topic, Remedy: "modprobe tun",
			Text: fmt.Sprintf("/dev/net/tun is missing, which the backend %s needs", f.backend())})
	}
	return found
}

// forwarding judges whether the host forwards packets.
func (f *Facts) forwarding() []Finding {
	var found []Finding
	for _, family := range f.families() {
		path := dataplane.Forwarding(family).Path
		finding := Finding{Level: OK, Topic: "forwarding", Text: fmt.Sprintf("%s packets are forwarded", family)}
		if value, exists := f.Sysctls[path]; !exists || value == "0" {
			finding = Finding{Level: Failure, Topic: "forwarding", Remedy: keepSysctl(path),
				Text: fmt.Sprintf("the host forwards no %s packets, so pods reach nothing outside it", family)}
		}
		found = append(found, finding)
	}
	return found
}

// keepSysctl returns the command that sets a setting now and at each start.
func keepSysctl(path string) string {
	name := dotted(path)
	return fmt.Sprintf("echo %s=1 >> /etc/sysctl.d/90-flannel.conf && sysctl -w %s=1", name, name)
}

// dotted returns a setting as sysctl spells it.
func dotted(path string) string { return strings.ReplaceAll(path, "/", ".") }

// bridges judges whether iptables sees packets between two pods of the host.
func (f *Facts) bridges() []Finding {
	var found []Finding
	for _, family := range f.families() {
		path := cidr.Pick(family, bridgeV4, bridgeV6)
		value, exists := f.Sysctls[path]
		finding := Finding{Level: OK, Topic: "br_netfilter",
			Text: fmt.Sprintf("%s packets between pods of this host pass through iptables", family)}
		switch {
		case !exists:
			finding = Finding{Level: Warning, Topic: finding.Topic,
				Remedy: "echo br_netfilter > /etc/modules-load.d/flannel.conf && modprobe br_netfilter",
				Text: fmt.Sprintf("%s packets between pods of this host bypass iptables, so a service of kube-proxy, "+
					"such as DNS, gives no answer to a pod next to its own", family)}
		case value == "0":
			finding = Finding{Level: Warning, Topic: finding.Topic, Remedy: keepSysctl(path),
				Text: fmt.Sprintf("%s is 0: services of kube-proxy do not work between two pods of this host", dotted(path))}
		}
		found = append(found, finding)
	}
	return found
}
