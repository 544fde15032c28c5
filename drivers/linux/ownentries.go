package linux

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// ownEntries holds the FDB entries that the driver is writing and deleting, and the neighbours
// that it is deleting. Announcements of these carry no port, so the driver knows its own by
// what they say: that the kernel holds what the driver has written there, or nothing where it
// has deleted. If another program causes the same announcement meanwhile, that is true as well.
type ownEntries map[entryKey]netip.Addr // where an FDB entry leads; invalid: the entry is deleted

type entryKey struct {
	family byte
	index  int    // of the link
	addr   string // the MAC of an FDB entry, or the IP address of a neighbour
}

// expect notes that the driver is about to write or delete an entry.
func (h *hints) expect(k entryKey, dst netip.Addr) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.own == nil {
		h.own = ownEntries{}
	}
	h.own[k] = dst
}

// settle ends the expectations: the kernel has announced all that the driver has done.
func (h *hints) settle() {
	_ = h.catchUp(func() { h.own = nil }) // its only error says that the socket was closed
}

// caused reports whether an announcement is about an entry as the driver has left it.
func (o ownEntries) caused(m nl.Message) bool {
	if len(o) == 0 || m.Kind != unix.RTM_NEWNEIGH && m.Kind != unix.RTM_DELNEIGH {
		return false
	}
	e, ok := parseEntry(m.Body)
	if !ok {
		return false
	}
	addr := e.dst
	if e.family == unix.AF_BRIDGE {
		addr = e.mac
	}
	dst, ours := o[entryKey{e.family, e.index, string(addr)}]
	if m.Kind == unix.RTM_DELNEIGH {
		return ours && !dst.IsValid()
	}
	f, ok := e.fdb("")
	return ours && ok && f.Dst == dst
}
