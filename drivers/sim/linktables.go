package sim

import (
	"net/netip"

	"github.com/flanneld/flannel/core/dataplane"
)

// neigh is a neighbour's link address, set for good or learnt.
type neigh struct {
	mac       dataplane.MAC
	permanent bool
}

// neighs are the neighbours of a link.
type neighs struct {
	values *values
	byAddr map[uint32]neigh
}

func newNeighs(v *values) neighs { return neighs{v, map[uint32]neigh{}} }

func (t neighs) get(ip netip.Addr) (neigh, bool) {
	if number, ok := t.values.addrs.find(ip); ok {
		n, ok := t.byAddr[number]
		return n, ok
	}
	return neigh{}, false
}

func (t neighs) set(ip netip.Addr, n neigh) { t.byAddr[t.values.addrs.number(ip)] = n }

// remove deletes the entries that match.
func (t neighs) remove(match func(netip.Addr, neigh) bool) {
	for number, n := range t.byAddr {
		if match(t.values.addrs.values[number], n) {
			delete(t.byAddr, number)
		}
	}
}

func (t neighs) delete(ip netip.Addr) {
	if number, ok := t.values.addrs.find(ip); ok {
		delete(t.byAddr, number)
	}
}

func (t neighs) clear() { clear(t.byAddr) }

// all yields the entries in no order.
func (t neighs) all(yield func(netip.Addr, neigh) bool) {
	for number, n := range t.byAddr {
		if !yield(t.values.addrs.values[number], n) {
			return
		}
	}
}

// fdbEntry says behind which host a MAC is, set for good or learnt.
type fdbEntry struct {
	dst       netip.Addr
	permanent bool
}

// fdb is where a vxlan link sends frames.
type fdb struct {
	values *values
	byMAC  map[dataplane.MAC]packedFDB
}

type packedFDB struct {
	dst       uint32
	permanent bool
}

func newFDB(v *values) fdb { return fdb{v, map[dataplane.MAC]packedFDB{}} }

func (t fdb) open(p packedFDB) fdbEntry { return fdbEntry{t.values.addrs.values[p.dst], p.permanent} }

func (t fdb) get(mac dataplane.MAC) (fdbEntry, bool) {
	if p, ok := t.byMAC[mac]; ok {
		return t.open(p), true
	}
	return fdbEntry{}, false
}

func (t fdb) set(mac dataplane.MAC, e fdbEntry) {
	t.byMAC[mac] = packedFDB{t.values.addrs.number(e.dst), e.permanent}
}

// remove deletes the entries that match.
func (t fdb) remove(match func(dataplane.MAC, fdbEntry) bool) {
	for mac, p := range t.byMAC {
		if match(mac, t.open(p)) {
			delete(t.byMAC, mac)
		}
	}
}

func (t fdb) delete(mac dataplane.MAC) { delete(t.byMAC, mac) }

func (t fdb) clear() { clear(t.byMAC) }

// all yields the entries in no order.
func (t fdb) all(yield func(dataplane.MAC, fdbEntry) bool) {
	for mac, p := range t.byMAC {
		if !yield(mac, t.open(p)) {
			return
		}
	}
}
