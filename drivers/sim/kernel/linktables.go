package kernel

import (
	"net/netip"

	"github.com/flanneld/flannel/core/dataplane"
)

// neigh is a neighbour's link address, permanent or learnt.
type neigh struct {
	mac       dataplane.MAC
	permanent bool
}

// neighs holds the neighbours of a link.
type neighs struct {
	values *values
	byAddr slots
}

func newNeighs(v *values) neighs { return neighs{values: v} }

// packed is a number and a flag in one.
func packed(number uint32, permanent bool) uint32 {
	if permanent {
		return number<<1 | 1
	}
	return number << 1
}

func (t *neighs) open(p uint32) neigh { return neigh{t.values.macs.values[p>>1], p&1 != 0} }

func (t *neighs) get(ip netip.Addr) (neigh, bool) {
	if at, ok := t.values.neighs.find(ip); ok {
		if p, ok := t.byAddr.get(at); ok {
			return t.open(p), true
		}
	}
	return neigh{}, false
}

func (t *neighs) set(ip netip.Addr, n neigh) {
	t.byAddr.set(t.values.neighs.number(ip), packed(t.values.macs.number(n.mac), n.permanent))
}

// remove deletes the entries that match.
func (t *neighs) remove(match func(netip.Addr, neigh) bool) {
	for at, p := range t.byAddr.all {
		if match(t.values.neighs.values[at], t.open(p)) {
			t.byAddr.delete(at)
		}
	}
}

func (t *neighs) delete(ip netip.Addr) {
	if at, ok := t.values.neighs.find(ip); ok {
		t.byAddr.delete(at)
	}
}

func (t *neighs) clear() { t.byAddr.clear() }

// all yields the entries.
func (t *neighs) all(yield func(netip.Addr, neigh) bool) {
	for at, p := range t.byAddr.all {
		if !yield(t.values.neighs.values[at], t.open(p)) {
			return
		}
	}
}

// fdbEntry names the host of a MAC, permanent or learnt.
type fdbEntry struct {
	dst       netip.Addr
	permanent bool
}

// fdb maps MACs to the hosts to which a vxlan link sends frames.
type fdb struct {
	values *values
	byMAC  slots
}

func newFDB(v *values) fdb { return fdb{values: v} }

func (t *fdb) open(p uint32) fdbEntry { return fdbEntry{t.values.hosts.values[p>>1], p&1 != 0} }

func (t *fdb) get(mac dataplane.MAC) (fdbEntry, bool) {
	if at, ok := t.values.macs.find(mac); ok {
		if p, ok := t.byMAC.get(at); ok {
			return t.open(p), true
		}
	}
	return fdbEntry{}, false
}

func (t *fdb) set(mac dataplane.MAC, e fdbEntry) {
	t.byMAC.set(t.values.macs.number(mac), packed(t.values.hosts.number(e.dst), e.permanent))
}

// remove deletes the entries that match.
func (t *fdb) remove(match func(dataplane.MAC, fdbEntry) bool) {
	for at, p := range t.byMAC.all {
		if match(t.values.macs.values[at], t.open(p)) {
			t.byMAC.delete(at)
		}
	}
}

func (t *fdb) delete(mac dataplane.MAC) {
	if at, ok := t.values.macs.find(mac); ok {
		t.byMAC.delete(at)
	}
}

func (t *fdb) clear() { t.byMAC.clear() }

// all yields the entries.
func (t *fdb) all(yield func(dataplane.MAC, fdbEntry) bool) {
	for at, p := range t.byMAC.all {
		if !yield(t.values.macs.values[at], t.open(p)) {
			return
		}
	}
}
