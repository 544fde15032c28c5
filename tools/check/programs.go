package check

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	rules "github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/internal/shellword"
)

// firewall judges the rules of all programs, as the daemon does.
func (f *Facts) firewall() []Finding {
	if f.Network == nil {
		return nil
	}
	options := rules.Options{Masquerade: f.SubnetFile.Masq, Forward: true}
	facts := f.Firewall
	if len(f.Paths) > 0 {
		facts.Blocks = nil // the ways of packets say more
	}
	wanted := rules.Render(options, *f.Network, f.someSubnet(), facts)
	var found []Finding
	for _, problem := range wanted.Problems {
		found = append(found, Finding{Level: Failure, Topic: "firewall", Text: problem.Error(),
			Remedy: f.acceptForwarded(problem.Error())})
	}
	for _, note := range wanted.Notes {
		if !strings.Contains(note, "br_netfilter") { // the findings about bridges tell that
			found = append(found, Finding{Level: Warning, Topic: "firewall", Text: note, Remedy: f.acceptForwarded(note)})
		}
	}
	if len(found) == 0 && len(f.Paths) == 0 {
		return []Finding{{Level: OK, Topic: "firewall", Text: "no foreign rule drops the packets that flannel accepts"}}
	}
	return found
}

// someSubnet returns the host's subnet, or the first of the network if it has none.
func (f *Facts) someSubnet() lease.Key {
	if f.SubnetFile.Subnet.IsValid() {
		return f.SubnetFile.Subnet
	}
	first := func(r config.Range) netip.Prefix {
		if !r.Enabled() {
			return netip.Prefix{}
		}
		if r.SubnetLen == 0 {
			return r.Network
		}
		return cidr.Subnet(r.Min, cidr.Uint128{}, r.SubnetLen)
	}
	return lease.Key{V4: first(f.Network.V4), V6: first(f.Network.V6)}
}

// blocking matches the chain that a problem of the firewall names.
var blocking = regexp.MustCompile(`chain (\S+) in table (\S+) ([^\s,]+)`)

// acceptForwarded returns the commands that accept the packets of pods in the chain
// that a problem names: an accept in another one does not help.
func (f *Facts) acceptForwarded(problem string) string {
	var commands []string
	for _, family := range f.families() {
		network, program := f.Network.Of(family).Network, cidr.Pick(family, "iptables", "ip6tables")
		chain := blocking.FindStringSubmatch(problem)
		if chain != nil && !(shellword.Plain(chain[1]) && shellword.Plain(chain[3])) {
			return "nft list ruleset" // nft reads such a name as more than a name
		}
		for _, direction := range []string{"s", "d"} {
			command := fmt.Sprintf("%s -I FORWARD -%s %s -j ACCEPT", program, direction, network)
			if chain != nil && chain[1] != "FORWARD" {
				command = fmt.Sprintf("nft insert rule %s %s %s %s %saddr %s accept", chain[2], chain[3], chain[1],
					cidr.Pick(family, "ip", "ip6"), direction, network)
			}
			commands = append(commands, command)
		}
	}
	return strings.Join(commands, "; ")
}

// masquerade judges whether packets of pods to the outside get the host's address.
func (f *Facts) masquerade() []Finding {
	if !f.SubnetFile.Exists || f.Network == nil {
		return nil
	}
	if !f.SubnetFile.Masq {
		return []Finding{f.masqueradeOfPlugin()}
	}
	var lacking []string
	for _, family := range f.families() {
		there := false
		for k, c := range f.Chains.Chains {
			there = there || k.Family == family && k.Hook == dataplane.Postrouting && c.Jump == dataplane.Placed
		}
		if !there {
			lacking = append(lacking, family.String())
		}
	}
	if len(lacking) > 0 {
		return []Finding{{Level: Failure, Topic: "masquerade", Remedy: "systemctl restart flanneld",
			Text: fmt.Sprintf("flannel's masquerade rules for %s are missing, so pods do not reach the outside; "+
				"a running flanneld puts them back within seconds: its log says why it does not",
				strings.Join(lacking, " and "))}}
	}
	return []Finding{{Level: OK, Topic: "masquerade", Text: "flannel's masquerade rules are in place"}}
}

// masqueradeOfPlugin judges whether the CNI plugin masquerades where flanneld does not. It then has the plugin that
// it calls do so, unless the CNI configuration says otherwise.
func (f *Facts) masqueradeOfPlugin() Finding {
	const without = "flanneld runs without --ip-masq"
	masquerades, known := delegateMasquerades(f.CNIFirst)
	switch {
	case known && masquerades:
		return Finding{Level: OK, Topic: "masquerade",
			Text: without + ", and the CNI configuration has the plugins masquerade instead"}
	case known:
		return Finding{Level: Warning, Topic: "masquerade", Remedy: "flanneld --ip-masq",
			Text: without + `, and the CNI configuration has "ipMasq": false: packets of pods leave for the outside with ` +
				"the pods' addresses, unless another program masquerades"}
	}
	return Finding{Level: Warning, Topic: "masquerade", Remedy: "flanneld --ip-masq",
		Text: without + ", and no CNI configuration here says whether a plugin masquerades instead: if no program does, " +
			"packets of pods leave for the outside with the pods' addresses"}
}

// firewalld judges whether firewalld lets the interfaces of pods pass.
func (f *Facts) firewalld() []Finding {
	if !f.Processes["firewalld"] {
		return nil
	}
	devices := []string{"cni0"}
	for _, l := range f.Host.Links {
		if strings.HasPrefix(l.Name, "flannel") || all.NamesDevice(l.Name) {
			devices = append(devices, l.Name)
		}
	}
	untrusted := slices.DeleteFunc(devices, func(name string) bool { return slices.Contains(f.Trusted, name) })
	if len(untrusted) == 0 {
		return []Finding{{Level: OK, Topic: "firewalld", Text: "the interfaces of pods are in its zone trusted"}}
	}
	remedy := "firewall-cmd --permanent --zone=trusted"
	for _, name := range untrusted {
		remedy += " --add-interface=" + shellword.Of(name)
	}
	return []Finding{{Level: Warning, Topic: "firewalld", Remedy: remedy + " && firewall-cmd --reload",
		Text: fmt.Sprintf("firewalld runs, and %s is not in its zone trusted: it may drop packets of pods",
			strings.Join(untrusted, ", "))}}
}

// takers judges whether another program removes devices, addresses or MACs.
func (f *Facts) takers() []Finding {
	var found []Finding
	if f.Processes["NetworkManager"] {
		found = append(found, f.networkManager())
	}
	if f.Processes["systemd-networkd"] {
		found = append(found, f.networkd())
	}
	if text := f.setting("network/99-default.link", "MACAddressPolicy=persistent"); text {
		finding := Finding{Level: OK, Topic: "udev", Text: "a .link file leaves the MACs of flannel's devices alone"}
		if !f.names(".link", "flannel") {
			finding = Finding{Level: Warning, Topic: "udev",
				Remedy: `printf '[Match]\nOriginalName=flannel* fl.* fl6.*\n[Link]\nMACAddressPolicy=none\n' > ` +
					`/etc/systemd/network/50-flannel.link`,
				Text: "systemd's 99-default.link gives new devices another MAC; flanneld follows, and upstream does not"}
		}
		found = append(found, finding)
	}
	return found
}

func (f *Facts) networkManager() Finding {
	for path, text := range f.Settings {
		unmanaged := strings.Contains(text, "unmanaged-devices") && strings.Contains(text, "flannel")
		if strings.Contains(path, "NetworkManager") && unmanaged {
			return Finding{Level: OK, Topic: "NetworkManager", Text: "it leaves flannel's devices alone"}
		}
	}
	return Finding{Level: Warning, Topic: "NetworkManager",
		Text: "it may manage flannel's devices, and remove their addresses and routes",
		Remedy: `printf '[keyfile]\nunmanaged-devices=interface-name:flannel*;interface-name:fl.*;interface-name:fl6.*;` +
			`interface-name:cni*;interface-name:veth*\n'` +
			" > /etc/NetworkManager/conf.d/flannel.conf && systemctl reload NetworkManager"}
}

func (f *Facts) networkd() Finding {
	if f.setting("networkd.conf", "ManageForeignRoutes=no") || f.setting("networkd.conf", "ManageForeignRoutes=false") {
		return Finding{Level: OK, Topic: "networkd", Text: "it leaves foreign routes alone"}
	}
	return Finding{Level: Warning, Topic: "networkd",
		Text: "systemd-networkd removes foreign routes when it restarts; flanneld puts them back",
		Remedy: `mkdir -p /etc/systemd/networkd.conf.d && printf '[Network]\nManageForeignRoutes=no\n' > ` +
			"/etc/systemd/networkd.conf.d/flannel.conf && systemctl restart systemd-networkd"}
}

// setting reports whether a configuration file, by a part of its path, has a line.
func (f *Facts) setting(path, line string) bool {
	for name, text := range f.Settings {
		if strings.Contains(name, path) && slices.Contains(lines(text), line) {
			return true
		}
	}
	return false
}

// names reports whether a configuration file, by the end of its path, names something.
func (f *Facts) names(end, what string) bool {
	for name, text := range f.Settings {
		if strings.HasSuffix(name, end) && strings.Contains(text, what) {
			return true
		}
	}
	return false
}

// lines returns the lines of a text without blanks around them.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		all = append(all, strings.TrimSpace(line))
	}
	return all
}

// otherCNI are the devices and configurations of other CNI programs, by the beginning
// of a device's name.
var otherCNI = map[string]string{
	"cali": "Calico", "vxlan.calico": "Calico", "cilium": "Cilium", "lxc_health": "Cilium", "weave": "Weave Net",
	"kube-bridge": "kube-router", "antrea": "Antrea", "ovn-k8s": "OVN-Kubernetes",
}

// leftovers judges what other CNI programs left.
func (f *Facts) leftovers() []Finding {
	found := f.cniOrder()
	seen := map[string]bool{}
	for _, l := range f.Host.Links {
		for prefix, program := range otherCNI {
			if strings.HasPrefix(l.Name, prefix) && !seen[program] {
				seen[program] = true
				found = append(found, Finding{Level: Warning, Topic: "CNI", Remedy: "ip -d link show " + shellword.Of(l.Name),
					Text: fmt.Sprintf("%s left the device %s, or still runs; "+
						"two CNI programs change each other's rules", program, l.Name)})
			}
		}
	}
	if len(found) == 0 {
		return []Finding{{Level: OK, Topic: "CNI", Text: "no other CNI program left anything"}}
	}
	return found
}
