package linux

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// ndaNhID is NDA_NH_ID: the entry's destination is a nexthop object.
const ndaNhID = 0xd

// putNdmsg writes struct ndmsg.
func putNdmsg(c *nl.Conn, family byte, index int, state uint16, flags byte) {
	c.Out.U8(family, 0)
	c.Out.U16(0)
	c.Out.U32(uint32(index))
	c.Out.U16(state)
	c.Out.U8(flags, 0)
}

// putNeigh writes a message about a neighbour. A delete names only the key.
func putNeigh(c *nl.Conn, kind, flags uint16, n dataplane.Neigh, index int) {
	c.Begin(kind, flags)
	putNdmsg(c, nl.AF(cidr.FamilyOf(n.IP)), index, unix.NUD_PERMANENT, 0)
	c.Out.AttrAddr(unix.NDA_DST, n.IP)
	if kind == unix.RTM_NEWNEIGH {
		c.Out.Attr(unix.NDA_LLADDR, n.MAC[:])
	}
	c.Out.End()
}

// putFDB writes a message about an FDB entry. A delete names only the key, and
// removes all its destinations.
func putFDB(c *nl.Conn, kind, flags uint16, f dataplane.FDBEntry, index int) {
	c.Begin(kind, flags)
	putNdmsg(c, unix.AF_BRIDGE, index, unix.NUD_PERMANENT, unix.NTF_SELF)
	c.Out.Attr(unix.NDA_LLADDR, f.MAC[:])
	if kind == unix.RTM_NEWNEIGH {
		c.Out.AttrAddr(unix.NDA_DST, f.Dst)
	}
	c.Out.End()
}

// dumpNeighs reads the neighbours of one family on one link.
func dumpNeighs(c *nl.Conn, f cidr.Family, index int) ([]byte, error) {
	c.Begin(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
	putNdmsg(c, nl.AF(f), 0, 0, 0)
	c.Out.AttrU32(unix.NDA_IFINDEX, uint32(index))
	c.Out.End()
	b, err := c.Dump()
	if err != nil {
		return nil, fmt.Errorf("dump %s neighbours: %w", f, err)
	}
	return b, nil
}

// dumpFDB reads the forwarding entries of one link.
func dumpFDB(c *nl.Conn, index int) ([]byte, error) {
	c.Begin(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
	putNdmsg(c, unix.AF_BRIDGE, index, 0, 0)
	c.Out.End()
	b, err := c.Dump()
	if err != nil {
		return nil, fmt.Errorf("dump FDB: %w", err)
	}
	return b, nil
}

// entry is a neighbour or an FDB entry as the kernel reports it.
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
		family: body[0], index: int(nl.Native.Uint32(body[4:])),
		state: nl.Native.Uint16(body[8:]), flags: body[10],
	}
	for kind, value := range nl.Attrs(body[unix.SizeofNdMsg:]) {
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

// neigh returns the entry as a permanent neighbour, if it is one.
func (e entry) neigh(link string) (dataplane.Neigh, bool) {
	ip := nl.Addr(e.dst)
	if e.state&unix.NUD_PERMANENT == 0 || len(e.mac) != 6 || !ip.IsValid() {
		return dataplane.Neigh{}, false
	}
	return dataplane.Neigh{NeighKey: dataplane.NeighKey{Link: link, IP: ip}, MAC: dataplane.MAC(e.mac)}, true
}

// fdb returns the entry as a permanent forwarding entry with a destination, if
// it is one. See [dataplane.FDBEntry.Odd] for those with a port, VNI, link or
// next hop of their own. One with a next hop has no destination at all.
func (e entry) fdb(link string) (dataplane.FDBEntry, bool) {
	dst := nl.Addr(e.dst)
	if e.odd {
		dst = netip.IPv4Unspecified()
	}
	if e.state&unix.NUD_PERMANENT == 0 || e.flags&unix.NTF_SELF == 0 || len(e.mac) != 6 || !dst.IsValid() {
		return dataplane.FDBEntry{}, false
	}
	return dataplane.FDBEntry{FDBKey: dataplane.FDBKey{Link: link, MAC: dataplane.MAC(e.mac)}, Dst: dst}, true
}
