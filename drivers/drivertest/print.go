package drivertest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// Printer prints a driver's reports so that two worlds with the same history
// print the same: it leaves out the kernel's own IPv6 link-local addresses and
// routes, and writes "random" for a MAC that no command has set.
type Printer struct{ given strings.Builder }

// Given records the text of a command, whose MACs the printer then prints.
func (p *Printer) Given(text string) { p.given.WriteString(text + "\n") }

// State prints an observed state.
func (p *Printer) State(s *dataplane.State) string {
	s = s.Clone()
	s.Routes.DeleteFunc(func(k dataplane.RouteKey, _ dataplane.Route) bool {
		return k.Dst.Addr().IsLinkLocalUnicast()
	})
	return p.mask(s.Dump())
}

// Facts prints a driver's facts.
func (p *Printer) Facts(f driver.HostFacts) string {
	var b strings.Builder
	for _, l := range f.Links {
		fmt.Fprintf(&b, "link %s mtu %d mac %s%s%s%s%s%s%s\n", l.Name, l.MTU, l.MAC,
			flag(l.Up, "up"), flag(l.NoCarrier, "no-carrier"), flag(l.Loopback, "loopback"), flag(l.Bridge, "bridge"),
			flag(l.Inside, "inside"), flag(l.Master != "", "master "+l.Master))
		for _, a := range l.Addrs {
			if a.Prefix.Addr().Is6() && a.Prefix.Addr().IsLinkLocalUnicast() {
				continue
			}
			fmt.Fprintf(&b, "  addr %s%s%s%s%s%s%s\n", a.Prefix, flag(a.LinkLocal, "link-local"),
				flag(a.Permanent, "permanent"), flag(a.Temporary, "temporary"), flag(a.Deprecated, "deprecated"),
				flag(a.Tentative, "tentative"), flag(a.Duplicate, "duplicate"))
		}
	}
	b.WriteString(routeFacts(f.Routes))
	for _, name := range slices.Sorted(maps.Keys(f.Keys)) {
		fmt.Fprintf(&b, "key %s %s%s\n", name, f.Keys[name].Public, f.Keys[name].Err)
	}
	return p.mask(b.String())
}

// forwarding prints the families of which a host forwards no packet, and those of
// which it forwards none that comes in by a certain link.
func forwarding(f driver.HostFacts) string {
	var b strings.Builder
	for _, family := range cidr.Families {
		forwards := func(l driver.Link) bool { return !l.NoForwarding[family] }
		some := slices.ContainsFunc(f.Links, forwards)
		if !some {
			fmt.Fprintf(&b, "no %s\n", family)
		}
		for _, l := range f.Links {
			if some && !forwards(l) && !l.Loopback {
				fmt.Fprintf(&b, "no %s by %s\n", family, l.Name)
			}
		}
	}
	return b.String()
}

// routeFacts prints routes sorted. The kernel's order has no meaning.
func routeFacts(routes []driver.Route) string {
	var out []string
	for _, route := range routes {
		if route.Dst.Addr().IsLinkLocalUnicast() {
			continue
		}
		line := fmt.Sprintf("route %s metric %d", route.Dst, route.Metric)
		for _, h := range route.Hops {
			line += " dev " + h.Link
			if h.Via.IsValid() {
				line += " via " + h.Via.String()
			}
		}
		if route.Src.IsValid() {
			line += " src " + route.Src.String()
		}
		line += flag(route.MTU > 0, fmt.Sprint("mtu ", route.MTU))
		out = append(out, line+"\n")
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

func flag(on bool, name string) string {
	if on {
		return " " + name
	}
	return ""
}

var macForm = regexp.MustCompile(`\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b`)

// mask hides the MACs that no command gave.
func (p *Printer) mask(text string) string {
	given := p.given.String()
	return macForm.ReplaceAllStringFunc(text, func(mac string) string {
		if mac == (dataplane.MAC{}).String() || strings.Contains(given, mac) {
			return mac
		}
		return "random"
	})
}
