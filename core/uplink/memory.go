package uplink

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/driver"
)

const (
	// Patience is how long an address has to be gone, and another candidate usable, before the node moves to
	// that. A renewal of DHCP, a reload of the network's configuration and a restart of a routing daemon or a switch
	// take less, and peers cannot reach pods at a wrong address at all.
	Patience = 5 * time.Minute
	// Steady is how long a former or preferred choice has to be valid before the node returns to it.
	Steady = 10 * time.Second
)

// Memory holds the choices that a node remembers, also over a restart.
type Memory struct {
	Used Uplink // in use; zero: none
	Left Uplink // the one that the node left for Used by itself, and returns to; zero: none
	// Beside are the addresses on the link in use when it was last valid. One of them is no successor of the one in use.
	Beside []netip.Addr `json:",omitempty"`

	Next  Uplink    `json:"-"` // the candidate that the node may move to; zero: none
	Since time.Time `json:"-"` // when Next became one
}

// Decision is the result of a choice.
type Decision struct {
	Memory
	// Moved says why the node has moved to Used by itself, and what it returns from or left; "": it has not.
	Moved string
	// Trouble says why the uplink in use is not in order, or why there is none; nil: it is.
	Trouble error
	At      time.Time // when the choice may change without other facts; zero: never
}

// Choose chooses the uplink for a node that remembers its former choices.
//
// An address in use stays in use as long as it is on an interface that exists, whether that has a default route or a
// carrier. If it is gone, the node follows it to another interface at once, and so it does a new address of the same
// interface, which took its place. It moves to any other candidate only after [Patience]. It returns to the choice that
// it left, or moves to one of a flag that comes first, once that has been valid for [Steady].
//
// Other flags than those of the former choice are the operator's word, and count at once.
func Choose(opts Options, network config.Network, on Host, m Memory, now time.Time) Decision {
	h, err := newHost(opts, network, on, m.Used)
	if err != nil {
		return Decision{Memory: m, Trouble: err}
	}
	fresh, place, err := h.fresh()
	was := h.placeOf(m.Used)
	if was < 0 || h.isOverlays(m.Used) {
		if err != nil {
			return Decision{Memory: m, Trouble: err}
		}
		return Decision{Memory: Memory{Used: fresh, Beside: h.addresses(fresh.Link)}}
	}
	d := Decision{Memory: m}
	used, gone := h.still(m.Used)
	if gone == nil {
		d.Used, d.Beside = used, h.addresses(used.Link)
	} else {
		d.Trouble = fmt.Errorf("%w; the node keeps using it", gone)
	}
	to, patience, why := h.better(d.Memory, gone, fresh, err == nil, place < was)
	if to.Link == "" {
		d.Next, d.Since = Uplink{}, time.Time{}
		return d
	}
	if !sameChoice(to, d.Next) {
		d.Next, d.Since = to, now
	}
	if now.Sub(d.Since) < patience {
		d.At = d.Since.Add(patience)
		if gone != nil {
			d.Trouble = fmt.Errorf("%w; the node keeps using it, unless %s stays the better choice for %s",
				gone, describe(to), patience)
		}
		return d
	}
	left := m.Used
	if sameChoice(to, m.Left) {
		left = Uplink{}
	}
	return Decision{Memory: Memory{Used: to, Left: left, Beside: h.addresses(to.Link)}, Moved: why}
}

// better returns the choice to which the node moves after some time, and why; none: it stays.
func (h host) better(m Memory, gone error, fresh Uplink, found, preferred bool) (Uplink, time.Duration, string) {
	back, err := h.still(m.Left)
	link, up := h.link(back.Link)
	if m.Left.Link != "" && err == nil && h.placeOf(m.Left) >= 0 && up && link.Up {
		why := "it is the former choice, and valid again"
		if gone != nil { // there is nothing to lose
			return back, 0, why
		}
		return back, Steady, why
	}
	if gone != nil {
		if moved, ok := h.elsewhere(m.Used); ok {
			return moved, 0, fmt.Sprintf("the address has moved from %s", m.Used.Link)
		}
	}
	if !found {
		return Uplink{}, 0, ""
	}
	switch {
	case preferred:
		return fresh, Steady, fmt.Sprintf("%s comes first", fresh.By)
	case gone == nil && !h.deprecated(m.Used):
		return Uplink{}, 0, ""
	case gone == nil:
		if sameChoice(fresh, m.Used) {
			return Uplink{}, 0, ""
		}
		return fresh, Patience, "the address in use is deprecated"
	}
	if fresh.Link == m.Used.Link && h.succeeds(fresh, m) {
		return fresh, 0, fmt.Sprintf("%v, and another address took its place", gone)
	}
	return fresh, Patience, fmt.Sprintf("%v for %s", gone, Patience)
}

// placeOf returns the place of the selector that made a choice and would still make it; -1: there is none.
func (h host) placeOf(u Uplink) int {
	return slices.IndexFunc(h.selectors, func(s selector) bool { return s.flag == u.By && (s.fits == nil || s.fits(u)) })
}

// isOverlays reports whether a former choice belongs to the overlay, as one of an older version may.
func (h host) isOverlays(u Uplink) bool {
	l, ok := h.link(u.Link)
	if ok && h.barred(l) != "" {
		return true
	}
	for _, f := range cidr.Families {
		a := u.Addr(f)
		if _, inside := h.overlay(a); inside || a.Is4() && a.IsLinkLocalUnicast() {
			return true
		}
	}
	return false
}

// still returns a former choice as the host has it now, or why it is not valid any more.
func (h host) still(u Uplink) (Uplink, error) {
	l, ok := h.link(u.Link)
	if !ok {
		return Uplink{}, fmt.Errorf("interface %s has gone", u.Link)
	}
	c := candidate{link: l}
	for _, f := range h.families {
		a := u.Addr(f)
		if !a.IsValid() || a.Is6() && a.IsLinkLocalUnicast() {
			continue // the best one, as peers refuse link-local addresses
		}
		if !owns(l, a) {
			return Uplink{}, fmt.Errorf("interface %s has lost %s", l.Name, a)
		}
		c.addrs[f] = a
	}
	if err := h.complete(&c); err != nil {
		return Uplink{}, err
	}
	now := h.uplink(c)
	now.By, now.PassedOver = u.By, u.PassedOver
	return now, nil
}

// elsewhere returns a former choice on the other interface that has its addresses now. A flag that names an interface
// or an address chooses by itself.
func (h host) elsewhere(u Uplink) (Uplink, bool) {
	if u.By != defaultFlag {
		return Uplink{}, false
	}
	for _, f := range h.families {
		l, ok := h.owner(u.Addr(f))
		if !ok {
			continue
		}
		u.Link = l.Name
		moved, err := h.still(u)
		return moved, err == nil
	}
	return Uplink{}, false
}

// succeeds reports whether all addresses of a choice that differ from those in use are new on their link.
func (h host) succeeds(u Uplink, m Memory) bool {
	return !slices.ContainsFunc(h.families, func(f cidr.Family) bool {
		return u.Addr(f) != m.Used.Addr(f) && slices.Contains(m.Beside, u.Addr(f))
	})
}

// deprecated reports whether an address of a choice ends soon.
func (h host) deprecated(u Uplink) bool {
	l, _ := h.link(u.Link)
	return slices.ContainsFunc(l.Addrs, func(la driver.LinkAddr) bool {
		a := la.Prefix.Addr()
		return la.Deprecated && (a == u.IP || a == u.IPv6)
	})
}

func (h host) addresses(link string) []netip.Addr {
	var all []netip.Addr
	l, _ := h.link(link)
	for _, la := range l.Addrs {
		all = append(all, la.Prefix.Addr())
	}
	return all
}

// sameChoice reports whether two choices are the same interface with the same addresses.
func sameChoice(a, b Uplink) bool { return a.Link == b.Link && a.IP == b.IP && a.IPv6 == b.IPv6 }

func describe(u Uplink) string {
	text := u.Link
	for _, f := range cidr.Families {
		if a := u.Addr(f); a.IsValid() {
			text += " " + a.String()
		}
	}
	return text
}
