package linux

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// ndaNhID is NDA_NH_ID: the entry's destination is a nexthop object.
const ndaNhID = 0xd

// putNdmsg writes struct ndmsg.
func (c *conn) putNdmsg(family byte, index int, state uint16, flags byte) {
	c.out.u8(family, 0)
	c.out.u16(0)
	c.out.u32(uint32(index))
	c.out.u16(state)
	c.out.u8(flags, 0)
}

// putNeigh writes a message about a neighbour. The key alone is deleted.
func (c *conn) putNeigh(kind, flags uint16, n dataplane.Neigh, index int) {
	c.begin(kind, flags)
	c.putNdmsg(afOf(cidr.FamilyOf(n.IP)), index, unix.NUD_PERMANENT, 0)
	c.out.attrAddr(unix.NDA_DST, n.IP)
	if kind == unix.RTM_NEWNEIGH {
		c.out.attr(unix.NDA_LLADDR, n.MAC[:])
	}
	c.out.end()
}

// putFDB writes a message about an FDB entry. The key alone is deleted, with
// all destinations it may have.
func (c *conn) putFDB(kind, flags uint16, f dataplane.FDBEntry, index int) {
	c.begin(kind, flags)
	c.putNdmsg(unix.AF_BRIDGE, index, unix.NUD_PERMANENT, unix.NTF_SELF)
	c.out.attr(unix.NDA_LLADDR, f.MAC[:])
	if kind == unix.RTM_NEWNEIGH {
		c.out.attrAddr(unix.NDA_DST, f.Dst)
	}
	c.out.end()
}

// dumpNeighs reads the neighbours of one family on one link.
func (c *conn) dumpNeighs(f cidr.Family, index int) ([]byte, error) {
	c.begin(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
	c.putNdmsg(afOf(f), 0, 0, 0)
	c.out.attrU32(unix.NDA_IFINDEX, uint32(index))
	c.out.end()
	b, err := c.dump()
	if err != nil {
		return nil, fmt.Errorf("dump %s neighbours: %w", f, err)
	}
	return b, nil
}

// dumpFDB reads the forwarding entries of one link.
func (c *conn) dumpFDB(index int) ([]byte, error) {
	c.begin(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
	c.putNdmsg(unix.AF_BRIDGE, index, 0, 0)
	c.out.end()
	b, err := c.dump()
	if err != nil {
		return nil, fmt.Errorf("dump FDB: %w", err)
	}
	return b, nil
}

// entry is a neighbour or an FDB entry as the kernel tells it.
type entry struct {
	family byte
	index  int
	state  uint16
	flags  byte
	dst    []byte
	mac    []byte
	// odd marks an FDB entry with a port, VNI, link or nexthop of its own.
	odd bool
}

func parseEntry(body []byte) (entry, bool) {
	if len(body) < unix.SizeofNdMsg {
		return entry{}, false
	}
	e := entry{
		family: body[0], index: int(native.Uint32(body[4:])),
		state: native.Uint16(body[8:]), flags: body[10],
	}
	for kind, value := range attrs(body[unix.SizeofNdMsg:]) {
		switch kind {
		case unix.NDA_DST:
			e.dst = value
		case unix.NDA_LLADDR:
			e.mac = value
		case unix.NDA_PORT, unix.NDA_VNI, unix.NDA_IFINDEX, ndaNhID:
			e.odd = true
		}
	}
	return e, true
}

// neigh returns the permanent neighbour that the entry is, if it is one.
func (e entry) neigh(link string) (dataplane.Neigh, bool) {
	ip := addr(e.dst)
	if e.state&unix.NUD_PERMANENT == 0 || len(e.mac) != 6 || !ip.IsValid() {
		return dataplane.Neigh{}, false
	}
	return dataplane.Neigh{NeighKey: dataplane.NeighKey{Link: link, IP: ip}, MAC: dataplane.MAC(e.mac)}, true
}

// fdb returns the permanent forwarding entry that this is, if it is one with a
// destination. An entry that goes to a port, VNI or link of its own has no form
// in the core's language; its destination reads as unspecified, which nobody
// wants, so that it is replaced or removed.
func (e entry) fdb(link string) (dataplane.FDBEntry, bool) {
	dst := addr(e.dst)
	if e.state&unix.NUD_PERMANENT == 0 || e.flags&unix.NTF_SELF == 0 || len(e.mac) != 6 || !dst.IsValid() {
		return dataplane.FDBEntry{}, false
	}
	if e.odd {
		dst = unspecified(dst)
	}
	return dataplane.FDBEntry{FDBKey: dataplane.FDBKey{Link: link, MAC: dataplane.MAC(e.mac)}, Dst: dst}, true
}
