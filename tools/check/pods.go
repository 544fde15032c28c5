package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flanneld/flannel/cni/install"
	"github.com/flanneld/flannel/internal/shellword"
)

// poolFolder is where the CNI plugin host-local keeps a file for each address that a container has.
const poolFolder = "/var/lib/cni/networks"

// Pool is a folder of host-local with addresses of this host's subnet.
type Pool struct {
	Path  string
	Taken int // addresses of the host's IPv4 subnet with a file
}

// readPods reads what stands between flannel and a new pod: the CNI configuration that the runtime takes, and the
// addresses that are left.
func (g *gatherer) readPods() {
	for _, name := range g.f.CNI {
		if isConf(name) {
			g.f.CNIFirst = g.text(filepath.Join(g.CNIConf, name))
			if file := subnetFileOf(g.f.CNIFirst); file != "" && !g.exists(file) {
				g.f.CNISubnet = file
			}
			break
		}
	}
	folders, _ := filepath.Glob(g.at(poolFolder + "/*")) // the pattern is well formed
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue // a file, or removed meanwhile
		}
		pool := Pool{Path: filepath.Join(poolFolder, filepath.Base(folder))}
		for _, e := range entries {
			if a, err := netip.ParseAddr(e.Name()); err == nil && g.f.SubnetFile.Subnet.V4.Contains(a) {
				pool.Taken++
			}
		}
		if pool.Taken > 0 {
			g.f.Pools = append(g.f.Pools, pool)
		}
	}
}

// isConf reports whether a runtime takes a file for a CNI configuration.
func isConf(name string) bool {
	return slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(name))
}

// pools judges whether new pods find an address. The base of the subnet, its last address and that of the bridge are
// no pod's.
func (f *Facts) pools() []Finding {
	subnet := f.SubnetFile.Subnet.V4
	if !subnet.IsValid() {
		return nil
	}
	const kept = 3
	size := 1<<(32-subnet.Bits()) - kept
	bridge, pods := f.podsOn(subnet)
	var found []Finding
	for _, p := range f.Pools {
		text := fmt.Sprintf("%d of the %d addresses of %s are taken by files of host-local in %s", p.Taken, size, subnet,
			p.Path)
		remedy := "ls " + shellword.Of(p.Path) + "; crictl pods -q --no-trunc"
		switch left := size - p.Taken; {
		case left <= 0:
			found = append(found, Finding{Level: Failure, Topic: "addresses", Remedy: remedy, Text: text + ", so no pod can " +
				"start. A file names the container that has the address; delete those whose container does not exist, as " +
				"after a crash"})
		case left < size/10 && bridge != "" && pods < p.Taken/2:
			found = append(found, Finding{Level: Warning, Topic: "addresses", Remedy: remedy, Text: text + fmt.Sprintf(
				", and %s has %d pods: most files are of containers that are gone, as after a crash", bridge, pods)})
		}
	}
	return found
}

// podsOn returns the bridge with an address of a subnet, and the number of its ports.
func (f *Facts) podsOn(subnet netip.Prefix) (bridge string, ports int) {
	for _, l := range f.Host.Links {
		if slices.ContainsFunc(l.Addrs, func(a linkAddr) bool { return a.Prefix.Masked() == subnet }) {
			bridge = l.Name
		}
	}
	for _, l := range f.Host.Links {
		if bridge != "" && l.Master == bridge {
			ports++
		}
	}
	return bridge, ports
}

// cniOrder judges whether the configuration that the runtime takes leads to flannel: itself, or by a plugin that
// delegates to others, such as Multus.
func (f *Facts) cniOrder() []Finding {
	i := slices.IndexFunc(f.CNI, isConf)
	if i >= 0 && f.CNISubnet != "" {
		return []Finding{{Level: Failure, Topic: "CNI", Remedy: "cat " + shellword.Of("/etc/cni/net.d/"+f.CNI[i]),
			Text: fmt.Sprintf("%s, which the runtime takes, names the subnet file %s, and no such file exists, so no pod can "+
				"start: flanneld writes %s (--subnet-file)", f.CNI[i], f.CNISubnet, f.SubnetFile.Path)}}
	}
	if i < 0 || f.CNI[i] >= install.ConfName || leadsToFlannel(f.CNIFirst) {
		return nil
	}
	name := f.CNI[i]
	return []Finding{{Level: Failure, Topic: "CNI", Remedy: "cat " + shellword.Of("/etc/cni/net.d/"+name),
		Text: fmt.Sprintf("the runtime takes the first file in /etc/cni/net.d, which is %s, and that one is not flannel's "+
			"and does not name it: if its program is not in use any more, move the file away", name)}}
}

// leadsToFlannel reports whether a CNI configuration has a plugin of the type flannel, at any depth, or is that of a
// program which delegates to a file or network called flannel.
func leadsToFlannel(text string) bool {
	var config any
	if json.Unmarshal([]byte(text), &config) != nil {
		return false
	}
	delegates := strings.Contains(text, `"multus`) && strings.Contains(text, "flannel")
	return delegates || flannelPlugin(config) != nil
}

// flannelPlugin returns the plugin of the type flannel in a part of a configuration, at any depth; nil: there is none.
func flannelPlugin(part any) map[string]any {
	var inside []any
	switch p := part.(type) {
	case map[string]any:
		if p["type"] == "flannel" {
			return p
		}
		for _, name := range slices.Sorted(maps.Keys(p)) {
			inside = append(inside, p[name])
		}
	case []any:
		inside = p
	}
	for _, i := range inside {
		if found := flannelPlugin(i); found != nil {
			return found
		}
	}
	return nil
}

// delegateMasquerades reports whether the plugin that flannel's CNI plugin calls masquerades while flanneld does not.
// It is not known if the configuration has no plugin of the type flannel, or if that calls one that cannot masquerade.
func delegateMasquerades(text string) (masquerades, known bool) {
	var config any
	if json.Unmarshal([]byte(text), &config) != nil {
		return false, false
	}
	plugin := flannelPlugin(config)
	if plugin == nil {
		return false, false
	}
	delegate, _ := plugin["delegate"].(map[string]any)
	called, _ := delegate["type"].(string)
	set, is := delegate["ipMasq"].(bool)
	return set || !is, slices.Contains([]string{"", "bridge", "ptp"}, called)
}

// subnetFileOf returns the subnet file that a CNI configuration names for flannel's plugin, "" if it names none.
func subnetFileOf(text string) string {
	var config any
	if json.Unmarshal([]byte(text), &config) != nil {
		return ""
	}
	file, _ := flannelPlugin(config)["subnetFile"].(string)
	return file
}

// insiders judges peers whose own address lies inside flannel's network: packets to them would enter the tunnel again.
func (f *Facts) insiders() []Finding {
	var found []Finding
	for _, p := range f.Peers {
		for _, a := range []netip.Addr{p.PublicIP, p.PublicIP6} {
			if len(found) < mostNamed && a.IsValid() && f.isOverlay(netip.PrefixFrom(a, a.BitLen())) {
				found = append(found, Finding{Level: Warning, Topic: "peers", Remedy: "flannelctl leases show " + p.Subnet.String(),
					Text: fmt.Sprintf("the record of %s has the address %s, which lies inside flannel's own network: no host can be "+
						"reached there. Its node has chosen a wrong interface (--iface), or the record is forged", p.Subnet, a)})
			}
		}
	}
	return found
}
