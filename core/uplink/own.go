package uplink

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/driver"
)

// Host is a host as the choice of an uplink sees it.
type Host struct {
	Facts driver.HostFacts
	Own   Own
}

// Own says what on the host belongs to an overlay and can never be its uplink, whatever flag names it. Programs
// such as DHCP clients give default routes and addresses to such devices, too.
type Own struct {
	Devices  []string       // of all backends and networks
	Bridges  []string       // of the pods, by the CNI configuration
	Networks []netip.Prefix // of present and former configs, beside those of the config in force
}

// podBridge is the name that the CNI plugin gives to the bridge of the pods unless its configuration names another.
const podBridge = "cni0"

// barred returns why a link cannot be the uplink, or "".
func (h host) barred(l driver.Link) string {
	if slices.Contains(h.own.Devices, l.Name) {
		return "it is a device of flannel"
	}
	if why := h.ofPods(l); why != "" {
		return why
	}
	master, ok := h.link(l.Master)
	if ok && h.ofPods(master) != "" {
		return fmt.Sprintf("it is a port of %s, the bridge of the pods", master.Name)
	}
	return ""
}

// ofPods returns why a link is the bridge of the pods, or "".
func (h host) ofPods(l driver.Link) string {
	if !l.Bridge {
		return ""
	}
	for _, a := range l.Addrs {
		if network, inside := h.overlay(a.Prefix.Addr()); inside {
			return fmt.Sprintf("it is the bridge of the pods: it has %s of the network %s", a.Prefix.Addr(), network)
		}
	}
	switch {
	case l.Name == podBridge:
		return "it is the bridge of the pods"
	case slices.Contains(h.own.Bridges, l.Name):
		return "it is the bridge of the pods, says the CNI configuration"
	}
	return ""
}

// overlay returns the network of the overlay that has an address. An address of the config's network beside the range
// of the subnets is none: hosts may have addresses there, as in upstream's example of 10.0.0.0/8 with SubnetMin and
// SubnetMax.
func (h host) overlay(a netip.Addr) (netip.Prefix, bool) {
	i := slices.IndexFunc(h.own.Networks, func(p netip.Prefix) bool {
		r := h.network.Of(cidr.FamilyOf(p.Addr()))
		return p.Contains(a) && (p != r.Network || r.Holds(a))
	})
	if i < 0 {
		return netip.Prefix{}, false
	}
	return h.own.Networks[i], true
}

// barredAddr returns why an address of a link cannot be used, or "". Link-local addresses of devices that lead to
// pods come from programs that take these for networks.
func (h host) barredAddr(l driver.Link, la driver.LinkAddr) string {
	a := la.Prefix.Addr()
	if network, inside := h.overlay(a); inside {
		return fmt.Sprintf("%s is inside the network %s", a, network)
	}
	switch {
	case a.IsLinkLocalUnicast() && (a.Is4() || l.Inside):
		return fmt.Sprintf("%s is link-local", a)
	case la.Duplicate:
		return fmt.Sprintf("%s is a duplicate: another host has it", a)
	case la.Tentative:
		return fmt.Sprintf("%s is tentative: the kernel looks for another host with it", a)
	}
	return ""
}

// barredOf returns why the link's addresses of a family cannot be used, or "".
func (h host) barredOf(l driver.Link, f cidr.Family) string {
	for _, la := range l.Addrs {
		if why := h.barredAddr(l, la); why != "" && cidr.FamilyOf(la.Prefix.Addr()) == f {
			return why
		}
	}
	return ""
}

// refuse returns an error that names a link and says why it cannot be the uplink, or nil.
func (h host) refuse(l driver.Link) error {
	if why := h.barred(l); why != "" {
		return fmt.Errorf("interface %s cannot be the uplink: %s", l.Name, why)
	}
	return nil
}
