package search

import (
	"fmt"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/scenarios/lang"
)

// some names about half of the nodes as an argument of the topology, in one
// cluster out of four.
func (d *drawing) some(key string, nodes int) string {
	if d.rng.IntN(4) != 0 {
		return ""
	}
	return argument(key, d.half(nodes))
}

// half draws about half of the nodes, by number from 0.
func (d *drawing) half(nodes int) []int {
	var drawn []int
	for i := range nodes {
		if d.rng.IntN(2) == 0 {
			drawn = append(drawn, i)
		}
	}
	return drawn
}

func argument(key string, nodes []int) string {
	var names []string
	for _, i := range nodes {
		names = append(names, fmt.Sprintf("n%d", i+1))
	}
	if names == nil {
		return ""
	}
	return " " + key + "=" + strings.Join(names, ",")
}

// behindNAT puts some nodes behind a NAT, in one cluster out of five. With udp they
// have a segment each, since peers accept no datagram from an address that the
// sender does not publish. The router translates only UDP, so clusters with other
// backends have no NAT.
func (d *drawing) behindNAT(s shape) string {
	if !hasPort(s) || d.rng.IntN(5) != 0 {
		return ""
	}
	top := lang.Topology{Nodes: s.nodes, Segments: s.segments}
	var nodes []int
	for _, i := range d.half(s.nodes) {
		before := i > 0 && top.Segment(i-1) == top.Segment(i)
		after := i+1 < s.nodes && top.Segment(i+1) == top.Segment(i)
		if s.backend != "udp" || !before && !after {
			nodes = append(nodes, i)
		}
	}
	return argument("nat", nodes)
}

// address draws an address of a host number on a node's segment, of a family that
// the underlay has.
func (d *drawing) address(n, host int) string {
	top := lang.Topology{Nodes: d.top.nodes, Segments: d.top.segments}
	families := map[string][]cidr.Family{"v4": {cidr.V4}, "v6": {cidr.V6}, "dual": {cidr.V4, cidr.V6}}[d.top.family]
	return lang.UnderlayAddr(pick(d.rng, families...), top.Segment(n), host).Addr().String()
}

// hosts makes each host different, in every other cluster: with another MTU of the
// uplink, other firewall tools, or rules of firewalld.
func (d *drawing) hosts() {
	if d.rng.IntN(2) == 0 {
		return
	}
	for i := range d.top.nodes {
		for _, kind := range d.hostKinds() {
			if d.rng.IntN(3) == 0 {
				d.step(0, Step{Line: fmt.Sprintf("fault n%d %s", i+1, kind)})
			}
		}
	}
}

// hostKinds draws a fault of each kind that a host may have before its daemon starts.
func (d *drawing) hostKinds() []string {
	mtu := pick(d.rng, 1280, 1400, 1450, 9000)
	if d.top.family != "v4" {
		mtu = max(mtu, 1400) // IPv6 needs 1280 bytes inside the tunnel
	}
	kinds := []string{fmt.Sprintf("uplink mtu=%d", mtu)}
	if d.top.firewall == "none" {
		return kinds
	}
	kinds = append(kinds, "firewall tools="+pick(d.rng, "nftables", "old"))
	if !d.top.direct { // the zone trusts no uplink
		kinds = append(kinds, "firewall firewalld-zones")
	}
	return kinds
}
