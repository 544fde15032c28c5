package dataplane

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
)

// FDBKey identifies a forwarding entry of a vxlan device.
type FDBKey struct {
	Link string
	MAC  MAC
}

// Compare orders keys by link, then by MAC.
func (k FDBKey) Compare(o FDBKey) int {
	return cmp.Or(cmp.Compare(k.Link, o.Link), bytes.Compare(k.MAC[:], o.MAC[:]))
}

// Key returns the key.
func (k FDBKey) Key() FDBKey { return k }

// FDBEntry is a permanent "self" entry: frames to MAC leave inside packets to Dst.
type FDBEntry struct {
	FDBKey
	Dst netip.Addr // unspecified: see Odd
}

// Odd reports whether a driver read an entry that the fields do not describe: one with a port, VNI or
// link of its own, or with a next-hop object in place of a destination. It has the unspecified address
// as its destination, and is never wanted. Linux does not replace the last kind, and reports no error.
func (e FDBEntry) Odd() bool { return e.Dst.IsUnspecified() }

// String returns the canonical form, such as
// "fdb c6:d2:32:6f:8f:44 dst 192.168.64.3 dev flannel.1".
func (e FDBEntry) String() string { return fmt.Sprintf("fdb %s dst %s dev %s", e.MAC, e.Dst, e.Link) }

func (FDBEntry) kind() *kind { return &fdbKind }

var fdbKind = tableKind("fdb", parseFDB, func(s *State) *Table[FDBKey, FDBEntry] { return &s.FDB })

func parseFDB(f *fields) Object {
	var e FDBEntry
	e.MAC = f.mac(f.next())
	e.Dst = f.addr(f.after("dst"))
	e.Link = f.after("dev")
	return e
}
