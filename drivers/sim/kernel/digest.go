package kernel

import (
	"encoding/binary"
	"net/netip"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// noteOp adds an op to the trace. A large cluster makes a hundred million of
// them, so noteOp hashes the op without making its text.
func (h *Host) noteOp(op dataplane.Op, err error) {
	if err != nil {
		h.world.Note(h.name+": failed", op.String()+": "+err.Error())
		return
	}
	h.world.FoldDigest(h.opLabel, opDigest(op), op.String)
}

// opDigest returns a hash of an op.
func opDigest(op dataplane.Op) uint64 {
	h := world.Mix(world.HashStart, uint64(op.Verb))
	switch o := op.Object.(type) {
	case dataplane.Route:
		if o.Other != "" {
			break
		}
		h = mixPrefix(world.Mix(h, uint64(o.Metric)), o.Dst)
		h = mixAddr(h, o.Via)
		var flags uint64
		if o.OnLink {
			flags = 1
		}
		flags |= uint64(o.Scope)<<8 | uint64(o.Protocol)<<16
		if o.NextHop != 0 {
			h = world.Mix(h, uint64(o.NextHop))
		}
		return world.HashString(world.HashString(world.Mix(h, flags), o.Link), string(o.Kind))
	case dataplane.NextHop:
		return world.HashString(world.Mix(mixAddr(h, o.Via), uint64(o.ID)), o.Link)
	case dataplane.Neigh:
		return world.HashString(mixMAC(mixAddr(h, o.IP), o.MAC), o.Link)
	case dataplane.FDBEntry:
		return world.HashString(mixAddr(mixMAC(h, o.MAC), o.Dst), o.Link)
	}
	return world.HashString(h, op.Object.String())
}

func mixAddr(h uint64, a netip.Addr) uint64 {
	b := a.As16()
	h = world.Mix(h, binary.BigEndian.Uint64(b[:8]))
	return world.Mix(h, binary.BigEndian.Uint64(b[8:])+uint64(a.BitLen()))
}

func mixPrefix(h uint64, p netip.Prefix) uint64 {
	return world.Mix(mixAddr(h, p.Addr()), uint64(p.Bits()))
}

func mixMAC(h uint64, m dataplane.MAC) uint64 {
	return world.Mix(h, uint64(binary.BigEndian.Uint32(m[:4]))<<16|uint64(binary.BigEndian.Uint16(m[4:])))
}
