package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// The attributes of a question about a route that name a packet's protocol and port
// (linux/rtnetlink.h).
const (
	rtaIPProto = 27
	rtaDport   = 29
)

var _ driver.Router = (*Driver)(nil)

// Way implements [driver.Router]. With a protocol and a port, the kernel applies the rules
// that choose a table by them.
func (d *Driver) Way(p driver.Packet) (driver.Way, error) {
	known := newLinks(d.query, d.wg)
	in, err := known.parentIndex(p.In)
	if err != nil {
		return driver.Way{}, err
	}
	c := d.query
	c.Begin(unix.RTM_GETROUTE, 0)
	c.Out.U8(nl.AF(cidr.FamilyOf(p.Dst)), byte(p.Dst.BitLen()), byte(p.Src.BitLen()), 0, 0, 0, 0, 0)
	// The answer names the table if this flag asks for it. IPv6 names it always, and refuses the flag.
	c.Out.U32(cidr.Pick[uint32](cidr.FamilyOf(p.Dst), unix.RTM_F_LOOKUP_TABLE, 0))
	c.Out.AttrAddr(unix.RTA_DST, p.Dst)
	if p.Src.IsValid() {
		c.Out.AttrAddr(unix.RTA_SRC, p.Src)
	}
	if in != 0 {
		c.Out.AttrU32(unix.RTA_IIF, uint32(in))
	}
	if p.Mark != 0 {
		c.Out.AttrU32(unix.RTA_MARK, p.Mark)
	}
	if isAskedFor(p.Protocol) {
		c.Out.Attr(rtaIPProto, []byte{p.Protocol})
		if p.Port != 0 {
			c.Out.Attr(rtaDport, binary.BigEndian.AppendUint16(nil, p.Port))
		}
	}
	c.Out.End()
	body, err := c.Do()
	if err != nil {
		return driver.Way{}, fmt.Errorf("route to %s: %w", p.Dst, err)
	}
	return readWay(body, known)
}

// readWay reads the kernel's answer.
func readWay(body []byte, known *links) (way driver.Way, err error) {
	if len(body) < unix.SizeofRtMsg {
		return way, errors.New("the kernel's answer about a route is too short")
	}
	way.Kind, way.Table = body[7], uint32(body[4])
	oif := 0
	for kind, value := range nl.Attrs(body[unix.SizeofRtMsg:]) {
		switch kind {
		case unix.RTA_OIF:
			oif = int(nl.U32(value))
		case unix.RTA_GATEWAY:
			way.Via = nl.Addr(value)
		case unix.RTA_PREFSRC:
			way.Src = nl.Addr(value)
		case unix.RTA_TABLE:
			way.Table = nl.U32(value)
		case unix.RTA_METRICS:
			way.MTU = mtuOf(value)
		}
	}
	way.Link, err = known.nameOf(oif) // a request of its own, after which the body is no longer valid
	return way, err
}

// mtuOf returns the MTU among a route's metrics, 0 if it has none.
func mtuOf(metrics []byte) int {
	for kind, value := range nl.Attrs(metrics) {
		if kind == unix.RTAX_MTU {
			return int(nl.U32(value))
		}
	}
	return 0
}

// isAskedFor reports whether the kernel takes a protocol in a question. It refuses others.
func isAskedFor(protocol uint8) bool {
	return slices.Contains([]uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6}, protocol)
}
