package invariants

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/uplink"
)

// returnBound is how long a node may stay on another uplink while the one that it left is valid again: the time
// for which it has to be valid, and that until the next look.
const returnBound = uplink.Steady + lookBound

// left is the uplink that a node left for another one by itself. The zero value is none.
type left struct {
	link    string
	addrs   []netip.Addr
	validAt time.Duration // since when the host has it again
}

// checkSane checks that a node publishes no address of an overlay or of one of its devices, and none of link scope.
func (i *Invariants) checkSane(n *Node, l lease.Lease) {
	for _, f := range cidr.Families {
		a := l.Attrs.IP(f)
		if !a.IsValid() {
			continue
		}
		if i.inNetworks(netip.PrefixFrom(a, a.BitLen())) || a.Is4() && a.IsLinkLocalUnicast() {
			i.broken("uplink-sane", "%s publishes %s, which no peer reaches", n.name, a)
		}
		for _, link := range n.Facts().Links {
			has := slices.ContainsFunc(link.Addrs, func(la driver.LinkAddr) bool { return la.Prefix.Addr() == a })
			if has && (i.links[link.Name] || link.Name == "cni0") {
				i.broken("uplink-sane", "%s publishes %s, an address of %s", n.name, a, link.Name)
			}
		}
	}
}

// movedFrom matches the former uplink in the line that reports a move.
var movedFrom = regexp.MustCompile(`^moved from (\S+) \(MTU \d+(.*?)\) to (\S+) `)

var ownAddress = regexp.MustCompile(`, (\S+), public`)

// noteMoves follows the moves that a node reports.
func (n *Node) noteMoves(events []node.Event) {
	for _, e := range events {
		if e.Kind != "uplink-moved" {
			continue
		}
		m := movedFrom.FindStringSubmatch(e.Text)
		if m == nil {
			n.all.broken("uplink-returns", "%s reports a move that names no former uplink: %s", n.name, e.Text)
			continue
		}
		n.follows.remakes(n.all.elapsed())
		if m[3] == n.left.link || m[3] == m[1] {
			n.left = left{} // it is back, or has another address
			n.published.stayed = [2]bool{}
			continue
		}
		n.left = left{link: m[1]}
		for _, a := range ownAddress.FindAllStringSubmatch(m[2], -1) {
			n.left.addrs = append(n.left.addrs, netip.MustParseAddr(a[1]))
		}
	}
}

// savedLeft returns the uplink that a former process left, as the state file has it.
func (n *Node) savedLeft() left {
	var saved struct{ Uplink uplink.Memory }
	if n.Daemon == nil {
		return left{}
	}
	text, _ := n.Daemon.File(node.StateFile)
	if json.Unmarshal(text, &saved) != nil || saved.Uplink.Left.Link == saved.Uplink.Used.Link {
		return left{}
	}
	l := left{link: saved.Uplink.Left.Link, validAt: n.all.elapsed()}
	for _, f := range cidr.Families {
		if a := saved.Uplink.Left.Addr(f); a.IsValid() {
			l.addrs = append(l.addrs, a)
		}
	}
	return l
}

// checkReturns is called after every event: a node returns to the uplink that it left in time after that is
// valid again.
func (i *Invariants) checkReturns() error {
	for _, name := range i.order {
		n := i.nodes[name]
		if n.left.link == "" {
			continue
		}
		if !n.leftIsValid() || n.stands() || i.bad || n.Twinned || i.hindersReturn(n.name) {
			n.left.validAt = i.elapsed()
			continue
		}
		if since := i.elapsed() - n.left.validAt; since > returnBound {
			return fmt.Errorf("%s has not returned to %s with %v, which has been valid again for %s",
				n.name, n.left.link, n.left.addrs, since)
		}
	}
	return nil
}

// hindersReturn reports whether a fault keeps a node from returning. A lost default route and another network
// card do not.
func (i *Invariants) hindersReturn(name string) bool {
	return slices.ContainsFunc(i.hostFaults(name), func(fault string) bool {
		return !strings.Contains(fault, " default-route") && !strings.Contains(fault, " nic ")
	})
}

// leftIsValid reports whether the host has the interface and the addresses that the node left.
func (n *Node) leftIsValid() bool {
	for _, l := range n.Facts().Links {
		owns := func(a netip.Addr) bool {
			return slices.ContainsFunc(l.Addrs, func(la driver.LinkAddr) bool { return la.Prefix.Addr() == a })
		}
		if l.Name == n.left.link && l.Up {
			return !slices.ContainsFunc(n.left.addrs, func(a netip.Addr) bool { return !owns(a) })
		}
	}
	return false
}
