package linux

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// watched holds the objects whose announcements matter.
type watched struct {
	links  map[int]string // of the extent: their neighbours, FDB entries and routes matter
	extent dataplane.Extent
	memory *routeMemory     // whose routes matter; nil while the tables are being read
	seen   *dataplane.State // by the last look; nil before it ends
}

// indexes returns the links on which watched objects depend, with some others, sorted; nil while any may.
func (w *watched) indexes(others []int) []int {
	if w.memory == nil {
		return nil
	}
	all := make([]int, 0, len(w.links)+len(w.memory.links))
	all = slices.AppendSeq(all, maps.Keys(w.links))
	all = slices.AppendSeq(all, maps.Keys(w.memory.links))
	all = append(all, others...)
	slices.Sort(all)
	return slices.Compact(all)
}

// judge reports whether an announcement is a reason to look, and whether routes
// that matter may have changed. On a busy host most announcements are neither:
// neighbours come and go on other links, and routing daemons change routes that
// lead elsewhere.
func (w *watched) judge(m nl.Message) (hint, stale bool) {
	switch m.Kind {
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		return w.entry(m), false
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		var r route
		matters := parseRoute(m.Body, &r) && w.route(&r)
		return matters, matters
	case unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP:
		// The kernel does not announce that a deleted next hop takes its IPv4 routes along.
		matters := len(m.Body) < sizeofNhmsg || w.nextHop(m.Body)
		return matters, matters
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if len(m.Body) < unix.SizeofIfInfomsg {
			return true, true
		}
		flags := nl.Native.Uint32(m.Body[8:])
		// Next hops go with the carrier, too.
		works := m.Kind == unix.RTM_NEWLINK && flags&unix.IFF_UP != 0 && flags&unix.IFF_LOWER_UP != 0
		return true, !works && w.carries(nl.Native.Uint32(m.Body[4:]))
	case unix.RTM_DELADDR:
		return true, len(m.Body) < unix.SizeofIfAddrmsg || w.carries(nl.Native.Uint32(m.Body[4:]))
	}
	return true, false
}

// entry reports whether a neighbour or an FDB entry matters.
func (w *watched) entry(m nl.Message) bool {
	e, ok := parseEntry(m.Body)
	if !ok {
		return false
	}
	link, ours := w.links[e.index]
	if !ours {
		return false
	}
	// A deleted entry does not say whether it was permanent.
	return m.Kind == unix.RTM_DELNEIGH || e.state&unix.NUD_PERMANENT != 0 || w.saw(e, link)
}

// saw reports whether the last look returned the entry: then another program has made it one
// that ages.
func (w *watched) saw(e entry, link string) bool {
	if w.seen == nil {
		return false
	}
	if e.family == unix.AF_BRIDGE {
		return len(e.mac) == 6 && w.seen.FDB.Has(dataplane.FDBKey{Link: link, MAC: dataplane.MAC(e.mac)})
	}
	return w.seen.Neighs.Has(dataplane.NeighKey{Link: link, IP: nl.Addr(e.dst)})
}

// nextHop reports whether a next hop matters: one of our protocol, one that the last look
// returned, which takes the protocol of the program that replaces it, or one that a route of the facts uses.
func (w *watched) nextHop(body []byte) bool {
	h, _, ours := parseNextHop(body)
	return ours || w.seen != nil && w.seen.NextHops.Has(h.ID) || w.memory != nil && w.memory.used[uint32(h.ID)]
}

// route reports whether a route matters: a look would report it, or it replaces
// one that the last look reported. Every link has a link-local route of its own
// under one and the same key, and nothing replaces that.
func (w *watched) route(r *route) bool {
	return r.protocol == dataplane.Protocol ||
		r.leavesBy(w.links) ||
		w.extent.InNetworks(r.dst) ||
		w.extent.Reaches(r.dst) ||
		w.memory != nil && w.memory.routes.Has(r.key()) && !r.dst.Addr().IsLinkLocalUnicast()
}

// carries reports whether routes that matter depend on a link. When a link goes
// down, loses its carrier or an address, Linux removes routes without an announcement.
func (w *watched) carries(index uint32) bool {
	if w.memory == nil {
		return true
	}
	_, ok := w.memory.links[int(index)]
	return ok
}
