package linux

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// address is an address of a link as the kernel tells it.
type address struct {
	prefix netip.Prefix
	index  int
	scope  byte
	flags  uint32
}

// permanentGlobal reports whether it is one of those a State holds.
func (a address) permanentGlobal() bool {
	return a.scope == unix.RT_SCOPE_UNIVERSE && a.flags&unix.IFA_F_PERMANENT != 0
}

// dumpAddrs reads the addresses of one family, of all links.
func (c *conn) dumpAddrs(f cidr.Family) ([]byte, error) {
	c.begin(unix.RTM_GETADDR, unix.NLM_F_DUMP)
	c.out.u8(afOf(f), 0, 0, 0)
	c.out.u32(0)
	c.out.end()
	b, err := c.dump()
	if err != nil {
		return nil, fmt.Errorf("dump %s addresses: %w", f, err)
	}
	return b, nil
}

// parseAddr reads an RTM_NEWADDR.
func parseAddr(body []byte) (address, bool) {
	if len(body) < unix.SizeofIfAddrmsg {
		return address{}, false
	}
	a := address{flags: uint32(body[2]), scope: body[3], index: int(native.Uint32(body[4:]))}
	var ip, local netip.Addr
	for kind, value := range attrs(body[unix.SizeofIfAddrmsg:]) {
		switch kind {
		case unix.IFA_ADDRESS:
			ip = addr(value)
		case unix.IFA_LOCAL:
			local = addr(value)
		case unix.IFA_FLAGS:
			a.flags = u32(value)
		}
	}
	if local.IsValid() { // of a point-to-point pair, ours
		ip = local
	}
	a.prefix = netip.PrefixFrom(ip, int(body[1]))
	return a, a.prefix.IsValid()
}

// applyAddr does one op on an address.
func (ls *links) applyAddr(verb dataplane.Verb, want dataplane.Addr) error {
	l, err := ls.named(want.Link)
	if err != nil {
		return err
	}
	kind, flags := verbFlags(verb, unix.RTM_NEWADDR)
	c, ip := ls.c, want.Prefix.Addr()
	c.begin(kind, flags)
	c.out.u8(afOf(cidr.FamilyOf(ip)), byte(want.Prefix.Bits()), 0, unix.RT_SCOPE_UNIVERSE)
	c.out.u32(uint32(l.index))
	c.out.attrAddr(unix.IFA_LOCAL, ip)
	c.out.attrAddr(unix.IFA_ADDRESS, ip)
	if ip.Is6() {
		// The lease made it unique; looking for duplicates only delays its use.
		c.out.attrU32(unix.IFA_FLAGS, unix.IFA_F_NODAD)
	}
	c.out.end()
	_, err = c.do()
	return err
}

// verbFlags returns the message type and flags of an op, given the type that
// makes an object. The type that deletes it is the next one.
func verbFlags(verb dataplane.Verb, create uint16) (kind, flags uint16) {
	switch verb {
	case dataplane.Create:
		return create, unix.NLM_F_CREATE | unix.NLM_F_EXCL
	case dataplane.Replace:
		return create, unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	default:
		return create + 1, 0
	}
}
