package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/backend/wireguard"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/core/uplink"
	"github.com/flanneld/flannel/internal/shellword"
)

// uplink judges the interface that the daemon uses, or that one without further flags would take. Only the addresses of
// peers prove that another one is right.
func (f *Facts) uplink() []Finding {
	if f.Network == nil {
		return nil
	}
	on := uplink.Host{Facts: f.Host}
	for _, l := range f.Host.Links {
		if all.NamesDevice(l.Name) {
			on.Own.Devices = append(on.Own.Devices, l.Name)
		}
	}
	chosen, err := uplink.Select(uplink.Options{}, *f.Network, on)
	if err != nil && f.Status != nil && f.Status.Uplink.Link != "" {
		chosen = f.Status.Uplink
	} else if err != nil {
		return []Finding{{Level: Failure, Topic: "interface", Text: err.Error(), Remedy: "flanneld --iface=NAME"}}
	}
	used := chosen
	if f.Status != nil && f.Status.Uplink.Link != "" {
		used = f.Status.Uplink
	}
	finding := Finding{Level: OK, Topic: "interface", Text: "flannel takes " + describeUplink(used)}
	if used.Link != chosen.Link {
		finding.Text += fmt.Sprintf(", as its flags say; without them it would take %s, which has the default route",
			chosen.Link)
	}
	others := f.otherUplinks(used.Link)
	reaching, reached := f.towardsPeers(others), f.towardsPeers([]string{used.Link})
	switch {
	case len(reaching) == 1 && len(reached) == 0:
		finding.Level, finding.Remedy = Failure, "flanneld --iface="+shellword.Of(reaching[0])
		finding.Text += fmt.Sprintf(", and the addresses of the other nodes are in the subnet of %s", reaching[0])
	case used.Link == chosen.Link && len(others) > 0 && len(reached) == 0 && !f.answered():
		finding.Level, finding.Remedy = Warning, "flannelctl leases list"
		finding.Text += fmt.Sprintf(", since it has the default route; if the other hosts reach this one by %s, --iface of "+
			"flanneld has to name it. The addresses of their leases say in whose subnet they are",
			strings.Join(others, " or "))
	}
	return []Finding{finding}
}

// otherUplinks returns the interfaces that other hosts may know this one by, except one.
func (f *Facts) otherUplinks(used string) []string {
	var others []string
	for _, l := range f.Host.Links {
		global := slices.ContainsFunc(l.Addrs, func(a linkAddr) bool { return !a.LinkLocal && !f.isOverlay(a.Prefix) })
		if l.Up && !l.Loopback && l.Name != used && global && !isBridge(l.Name) {
			others = append(others, l.Name)
		}
	}
	return others
}

// towardsPeers returns those of some interfaces in whose subnets the addresses of peers are.
func (f *Facts) towardsPeers(links []string) []string {
	var towards []string
	for _, l := range f.Host.Links {
		of := func(a netip.Addr) bool {
			return slices.ContainsFunc(l.Addrs, func(on linkAddr) bool { return a.IsValid() && on.Prefix.Contains(a) })
		}
		here := func(p node.Peer) bool { return of(p.PublicIP) || of(p.PublicIP6) }
		if slices.Contains(links, l.Name) && slices.ContainsFunc(f.Peers, here) {
			towards = append(towards, l.Name)
		}
	}
	return towards
}

// answered reports whether a peer has answered a probe.
func (f *Facts) answered() bool {
	return slices.ContainsFunc(f.Peers, func(p node.Peer) bool {
		return slices.ContainsFunc(p.Ways, func(w node.Way) bool { return w.Probe != nil && w.Probe.Finding == probe.Well })
	})
}

func describeUplink(u uplink.Uplink) string {
	text := u.Link
	for _, f := range cidr.Families {
		if a := u.Addr(f); a.IsValid() {
			text += " with " + a.String()
		}
	}
	return text
}

// isOverlay reports whether an address lies in flannel's network.
func (f *Facts) isOverlay(p netip.Prefix) bool {
	return f.Network != nil && slices.ContainsFunc(cidr.Families[:], func(family cidr.Family) bool {
		r := f.Network.Of(family)
		return r.Enabled() && r.Network.Overlaps(p.Masked())
	})
}

// isBridge reports whether a link has the name of a bridge for pods or containers, of this
// or another network, which is not an uplink.
func isBridge(name string) bool {
	for _, prefix := range []string{"cni", "docker", "br-", "virbr", "podman", "flannel", "cali", "veth"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// overlap judges whether the host has addresses or routes of its own in the network.
func (f *Facts) overlap() []Finding {
	if f.Network == nil {
		return nil
	}
	var clashes, inside, wider []string
	for _, l := range f.Host.Links {
		for _, a := range l.Addrs {
			if f.isOverlay(a.Prefix) && !f.ownAddr(l.Name, a.Prefix) {
				clashes = append(clashes, fmt.Sprintf("address %s of %s", a.Prefix, l.Name))
			}
		}
	}
	for _, r := range f.Routes {
		onlyDirect := !r.Via || !f.isInside(r.Dst)
		switch {
		case !f.isOverlay(r.Dst) || !onlyDirect || f.ownAddr(r.Link, r.Dst):
			continue
		case !f.isInside(r.Dst):
			wider = append(wider, fmt.Sprintf("%s on %s", r.Dst, r.Link))
		case r.Dst.IsSingleIP():
			inside = append(inside, fmt.Sprintf("route %s", r.Dst))
		default:
			clashes = append(clashes, fmt.Sprintf("route %s on %s", r.Dst, r.Link))
		}
	}
	if len(clashes) == 0 && len(inside) > 0 {
		return []Finding{{Level: Warning, Topic: "overlap", Remedy: "ip route show table all; ip route get ADDRESS",
			Text: "another program's " + strings.Join(inside, ", ") + " takes packets to pods from flannel's routes: " +
				"find out which program made it"}}
	}
	if len(clashes) == 0 {
		text := "no address or route of this host lies in flannel's network"
		if len(wider) > 0 {
			text += "; flannel's routes come before " + strings.Join(slices.Compact(wider), ", ") +
				", so hosts behind that with addresses of flannel's network are not reached"
		}
		return []Finding{{Level: OK, Topic: "overlap", Text: text}}
	}
	return []Finding{{Level: Failure, Topic: "overlap", Remedy: "flannelctl config set FILE",
		Text: "flannel's network contains " + strings.Join(slices.Compact(clashes), ", ") +
			": give flannel another network, or the host another address"}}
}

// shared judges whether another flanneld has routes on the device that has this network's address.
func (f *Facts) shared() []Finding {
	ours := map[string]bool{}
	for _, l := range f.Host.Links {
		ours[l.Name] = f.Network != nil && strings.HasPrefix(l.Name, "flannel") &&
			slices.ContainsFunc(l.Addrs, func(a linkAddr) bool { return f.isInside(a.Prefix) })
	}
	for _, r := range f.Routes {
		if r.Via && ours[r.Link] && !f.isOverlay(r.Dst) {
			return []Finding{{Level: Warning, Topic: "overlap", Remedy: "ip route show dev " + shellword.Of(r.Link),
				Text: fmt.Sprintf("%s has the route %s into another network: another flanneld uses this device, or a former "+
					"one did; give one of the two another VNI, or delete what is left", r.Link, r.Dst)}}
		}
	}
	return nil
}

// bypass judges whether routes of other programs lead into flannel's network although all
// packets must take WireGuard's device. While the backend changes, such routes are flannel's.
func (f *Facts) bypass() []Finding {
	if f.Network == nil || f.Network.Backend.Type != wireguard.Type || f.Status != nil && f.Status.Change != nil {
		return nil
	}
	var found []Finding
	for _, r := range f.Routes {
		if r.Via && f.isInside(r.Dst) && !f.ownAddr(r.Link, r.Dst) {
			found = append(found, Finding{Level: Warning, Topic: "bypass",
				Remedy: fmt.Sprintf("ip route del %s dev %s", r.Dst, shellword.Of(r.Link)),
				Text: fmt.Sprintf("another program's route %s on %s is in flannel's network, and may lead packets past WireGuard "+
					"unencrypted; flannelctl status says whether flanneld prevents it", r.Dst, r.Link)})
		}
	}
	return found
}

// ownAddr reports whether an address or route is one of flannel's or of the pods'
// bridge.
func (f *Facts) ownAddr(link string, p netip.Prefix) bool {
	own := f.SubnetFile.Subnet
	within := p.Masked() == own.V4 || p.Masked() == own.V6
	return strings.HasPrefix(link, "flannel") || all.NamesDevice(link) || within || strings.HasPrefix(link, "cni") ||
		strings.HasPrefix(link, "veth")
}

// isInside reports whether a prefix lies within flannel's network.
func (f *Facts) isInside(p netip.Prefix) bool {
	return slices.ContainsFunc(cidr.Families[:], func(family cidr.Family) bool {
		r := f.Network.Of(family)
		return r.Enabled() && cidr.Contains(r.Network, p)
	})
}

// podBridge judges whether the bridge of the pods has an address of the host's subnet. The bridge is another flanneld's
// where several run.
func (f *Facts) podBridge() []Finding {
	own := f.SubnetFile.Subnet
	for _, l := range f.Host.Links {
		if l.Name != "cni0" || !own.IsValid() {
			continue
		}
		for _, a := range l.Addrs {
			subnet := cidr.Pick(cidr.FamilyOf(a.Prefix.Addr()), own.V4, own.V6)
			if a.LinkLocal || !subnet.IsValid() || a.Prefix.Masked() == subnet {
				continue
			}
			return []Finding{f.strangeBridge(a.Prefix, subnet)}
		}
		if bare := f.bareBridge(l); bare != nil {
			return bare
		}
		if down := f.portsDown(l); down != nil {
			return down
		}
		return []Finding{{Level: OK, Topic: "bridge", Text: "cni0 has the address of this host's subnet"}}
	}
	return nil
}

// bareBridge is the finding about a bridge with pods and without the address that is their gateway, the first of the
// subnet.
func (f *Facts) bareBridge(bridge link) []Finding {
	isPort := func(l link) bool { return l.Master == bridge.Name }
	if !slices.ContainsFunc(f.Host.Links, isPort) {
		return nil // the first pod brings it
	}
	for _, family := range f.families() {
		subnet := f.SubnetFile.Subnet.Of(family)
		within := func(a linkAddr) bool { return subnet.Contains(a.Prefix.Addr()) }
		if subnet.IsValid() && !slices.ContainsFunc(bridge.Addrs, within) {
			gateway := netip.PrefixFrom(subnet.Masked().Addr().Next(), subnet.Bits())
			return []Finding{{Level: Failure, Topic: "bridge",
				Remedy: fmt.Sprintf("ip addr add %s dev %s", gateway, shellword.Of(bridge.Name)),
				Text: fmt.Sprintf("%s has no address of this host's subnet %s, so the pods on it have no gateway", bridge.Name,
					subnet)}}
		}
	}
	return nil
}

// portsDown is the finding about pods whose device on the bridge is down.
func (f *Facts) portsDown(bridge link) []Finding {
	var down, commands []string
	for _, l := range f.Host.Links {
		if l.Master == bridge.Name && !l.Up {
			down = append(down, l.Name)
			commands = append(commands, "ip link set "+shellword.Of(l.Name)+" up")
		}
	}
	if len(down) == 0 {
		return nil
	}
	text := strings.Join(down[:min(len(down), mostNamed)], ", ")
	if more := len(down) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return []Finding{{Level: Failure, Topic: "bridge", Remedy: strings.Join(commands, "; "),
		Text: fmt.Sprintf("the ports %s of %s are down, so the pods behind them have no network", text, bridge.Name)}}
}

// strangeBridge is the finding about an address of the bridge in another subnet.
func (f *Facts) strangeBridge(has, subnet netip.Prefix) Finding {
	if len(f.Daemons) > 1 || f.Network != nil && !f.isOverlay(has) {
		return Finding{Level: Warning, Topic: "bridge", Remedy: "ip addr show dev cni0; grep . /run/flannel/*.env",
			Text: fmt.Sprintf("cni0 has the address %s, which is not in this host's subnet %s: it is the bridge of another "+
				"flanneld or program, and the CNI configuration of this network has to name another one", has, subnet)}
	}
	finding := Finding{Level: Failure, Topic: "bridge", Remedy: "ip link delete cni0",
		Text: fmt.Sprintf("cni0 has the address %s, which is not in this host's subnet %s: new pods fail with "+
			`"cni0 already has an IP address different from" while pods are on it`, has, subnet)}
	isPort := func(l link) bool { return l.Master == "cni0" }
	if slices.ContainsFunc(f.Host.Links, isPort) {
		finding.Remedy = "bridge link show"
		finding.Text += "; those that this lists end with their pods, and the next new pod repairs the bridge"
	}
	return finding
}

// ports judges whether another program uses the backend's UDP ports.
func (f *Facts) ports() []Finding {
	var found []Finding
	for _, port := range f.wantedPorts() {
		user, used := f.UDP[port]
		finding := Finding{Level: OK, Topic: "port", Text: fmt.Sprintf("UDP port %d is free", port)}
		switch {
		case used && f.usesItself(user):
			finding.Text = fmt.Sprintf("UDP port %d is in use by flannel", port)
		case used:
			finding = Finding{Level: Failure, Topic: "port", Remedy: fmt.Sprintf("ss -ulpn sport = :%d", port),
				Text: fmt.Sprintf("UDP port %d, which the backend %s needs, is in use by %s: end that program, "+
					"or set another Port in the network config", port, f.backend(), nameOfUser(user))}
		}
		found = append(found, finding)
	}
	return found
}

// usesItself reports whether the user of a port is flannel: its daemon, or the kernel
// on behalf of its device. No process has a socket of the kernel's open.
func (f *Facts) usesItself(user string) bool {
	if strings.HasPrefix(user, "flanneld") || user == "charon" && len(f.Daemons) > 0 {
		return true
	}
	device := slices.ContainsFunc(f.Host.Links, func(l link) bool { return strings.HasPrefix(l.Name, "flannel") })
	return user == "" && device
}

func nameOfUser(user string) string {
	if user == "" {
		return "a program that this user may not see, or a tunnel device of another program"
	}
	return "the program " + user
}

// wantedPorts returns the UDP ports of the backend.
func (f *Facts) wantedPorts() []uint16 {
	if f.Network == nil {
		return nil
	}
	spec, _ := all.Find(f.Network.Backend.Type)
	var ports []uint16
	for _, p := range spec.Ports(*f.Network) {
		ports = append(ports, p.Number)
	}
	return ports
}
