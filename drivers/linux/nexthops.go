package linux

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// Sizes of struct nhmsg and struct nexthop_grp.
const (
	sizeofNhmsg      = 8
	sizeofGroupEntry = 8
)

// The attributes of a next hop (NHA_*) that matter.
const (
	nhaID        = 1
	nhaGroup     = 2
	nhaBlackhole = 4
	nhaOIF       = 5
	nhaGateway   = 6
)

// putNextHop writes a message about a next hop on the link with that index. A delete
// names only the key.
func putNextHop(c *nl.Conn, kind, flags uint16, h dataplane.NextHop, index int) {
	var onlink uint32
	family, protocol := byte(unix.AF_UNSPEC), byte(0)
	if kind == unix.RTM_NEWNEXTHOP {
		family, protocol = unix.AF_INET, dataplane.Protocol
		if h.OnLink {
			onlink = unix.RTNH_F_ONLINK
		}
	}
	c.Begin(kind, flags)
	c.Out.U8(family, 0, protocol, 0)
	c.Out.U32(onlink)
	c.Out.AttrU32(nhaID, uint32(h.ID))
	if kind == unix.RTM_NEWNEXTHOP {
		c.Out.AttrU32(nhaOIF, uint32(index))
		c.Out.AttrAddr(nhaGateway, h.Via)
	}
	c.Out.End()
}

// dumpNextHops reads all next hops; nothing on a kernel that has none (before Linux 5.3).
func (d *Driver) dumpNextHops() ([]byte, error) {
	d.bulk.Begin(unix.RTM_GETNEXTHOP, unix.NLM_F_DUMP)
	d.bulk.Out.U8(unix.AF_UNSPEC, 0, 0, 0)
	d.bulk.Out.U32(0)
	d.bulk.Out.End()
	b, err := d.bulk.Dump()
	d.noNextHops = errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL)
	if d.noNextHops {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("dump next hops: %w", err)
	}
	return b, nil
}

// readNextHops reads the IPv4 next hops of our protocol.
func (m *routeMemory) readNextHops(o *observer) error {
	b, err := o.d.dumpNextHops()
	if err != nil {
		return err
	}
	m.objects = foreignNextHops(b)
	for body := range nl.Answers(b, unix.RTM_NEWNEXTHOP, unix.AF_INET) {
		h, index, ok := parseNextHop(body)
		if !ok {
			continue
		}
		h.Link, err = o.links.nameOf(index)
		if err != nil {
			return err
		}
		m.nextHops.Put(h)
		m.links[index] = h.Link
	}
	return nil
}

// nextHopObjects are the next-hop objects of other programs, by number.
type nextHopObjects map[uint32]nextHopObject

// nextHopObject is one hop or a group.
type nextHopObject struct {
	hop
	group []uint32 // the numbers of a group's members
}

// hops returns the hops of an object; none if it leads nowhere. The kernel allows no group in a group.
func (all nextHopObjects) hops(id uint32) []hop {
	members := all[id].group
	if members == nil {
		members = []uint32{id}
	}
	var hops []hop
	for _, id := range members {
		if o, ok := all[id]; ok && o.oif != 0 {
			hops = append(hops, o.hop)
		}
	}
	return hops
}

// foreignNextHops reads the next hops of other programs from a dump of all.
func foreignNextHops(dump []byte) nextHopObjects {
	all := nextHopObjects{}
	for m := range nl.Messages(dump) {
		if m.Kind != unix.RTM_NEWNEXTHOP || len(m.Body) < sizeofNhmsg || m.Body[2] == dataplane.Protocol {
			continue
		}
		var o nextHopObject
		id := uint32(0)
		for kind, value := range nl.Attrs(m.Body[sizeofNhmsg:]) {
			switch kind {
			case nhaID:
				id = nl.U32(value)
			case nhaOIF:
				o.oif = int(nl.U32(value))
			case nhaGateway:
				o.via = nl.Addr(value)
			case nhaGroup:
				for ; len(value) >= sizeofGroupEntry; value = value[sizeofGroupEntry:] {
					o.group = append(o.group, nl.U32(value[:4]))
				}
			}
		}
		all[id] = o
	}
	return all
}

// parseNextHop reads a message about a next hop. It returns false unless it is one of our protocol.
func parseNextHop(body []byte) (h dataplane.NextHop, index int, ok bool) {
	if len(body) < sizeofNhmsg {
		return h, 0, false
	}
	h.OnLink = nl.Native.Uint32(body[4:])&unix.RTNH_F_ONLINK != 0
	for kind, value := range nl.Attrs(body[sizeofNhmsg:]) {
		switch kind {
		case nhaID:
			h.ID = dataplane.NextHopID(nl.U32(value))
		case nhaOIF:
			index = int(nl.U32(value))
		case nhaGateway:
			h.Via = nl.Addr(value)
		case nhaBlackhole:
			h.Other = "blackhole"
		case nhaGroup:
			h.Other = "group"
		}
	}
	return h, index, body[2] == dataplane.Protocol
}
