package linux

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// address is a link's address as the kernel reports it.
type address struct {
	prefix netip.Prefix
	index  int
	scope  byte
	flags  uint32
}

// permanentGlobal reports whether the address is permanent and of global scope:
// a State holds only such addresses.
func (a address) permanentGlobal() bool {
	return a.scope == unix.RT_SCOPE_UNIVERSE && a.flags&unix.IFA_F_PERMANENT != 0
}

// dumpAddrs reads the addresses of one family, of all links.
func dumpAddrs(c *nl.Conn, f cidr.Family) ([]byte, error) {
	c.Begin(unix.RTM_GETADDR, unix.NLM_F_DUMP)
	c.Out.U8(nl.AF(f), 0, 0, 0)
	c.Out.U32(0)
	c.Out.End()
	b, err := c.Dump()
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
	a := address{flags: uint32(body[2]), scope: body[3], index: int(nl.Native.Uint32(body[4:]))}
	var ip, local netip.Addr
	for kind, value := range nl.Attrs(body[unix.SizeofIfAddrmsg:]) {
		switch kind {
		case unix.IFA_ADDRESS:
			ip = nl.Addr(value)
		case unix.IFA_LOCAL:
			local = nl.Addr(value)
		case unix.IFA_FLAGS:
			a.flags = nl.U32(value)
		}
	}
	if local.IsValid() { // our end of a point-to-point pair
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
	c.Begin(kind, flags)
	c.Out.U8(nl.AF(cidr.FamilyOf(ip)), byte(want.Prefix.Bits()), 0, unix.RT_SCOPE_UNIVERSE)
	c.Out.U32(uint32(l.index))
	c.Out.AttrAddr(unix.IFA_LOCAL, ip)
	c.Out.AttrAddr(unix.IFA_ADDRESS, ip)
	if ip.Is6() {
		// The lease makes the address unique; duplicate address detection would
		// only delay its use.
		c.Out.AttrU32(unix.IFA_FLAGS, unix.IFA_F_NODAD)
	}
	c.Out.End()
	_, err = c.Do()
	return err
}

// verbFlags returns the message type and flags of an op. create is the message
// type that creates the object; the type that deletes it is the next number.
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
