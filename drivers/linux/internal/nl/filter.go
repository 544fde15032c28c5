package nl

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Filter says which announcements the kernel drops before they wake a reader. Programming all peers causes
// thousands of announcements, and each pod that comes and goes some 25: of its veth, that device's addresses,
// routes, neighbours and settings.
type Filter struct {
	// Ports are those of the sockets that cause announcements to drop.
	Ports []uint32
	// Links are the indexes of the links that matter; nil: all do. Of other links the kernel drops
	//   - veths whose names begin with "veth" and whose other ends are in other namespaces or gone, as those of pods,
	//   - neighbours and FDB entries,
	//   - IPv6 link-local addresses, and routes to such addresses and to groups, which every device has, and
	//   - the settings with which a device begins, and their end.
	Links []int
}

// mostLinks bounds the length of a program, whose jumps are short. With more links, all matter.
const mostLinks = 64

// The places in a message; what is in the order of bytes of the host is compared with [half] and [word].
const (
	kindAt  = 4  // in struct nlmsghdr
	portAt  = 12 // in struct nlmsghdr
	bodyAt  = unix.SizeofNlMsghdr
	indexAt = bodyAt + 4 // in struct ifinfomsg, ndmsg and ifaddrmsg
	scopeAt = bodyAt + 3 // in struct ifaddrmsg
	linkAt  = bodyAt + unix.SizeofIfInfomsg
	routeAt = bodyAt + unix.SizeofRtMsg
	confAt  = bodyAt + 4 // after struct netconfmsg
	headLen = unix.SizeofNlAttr
)

// Names of the kernel that package unix lacks (linux/netconf.h).
const (
	netconfIndex      = 1 // NETCONFA_IFINDEX, always the first attribute
	netconfProxyNeigh = 5 // NETCONFA_PROXY_NEIGH
)

var (
	drop = bpf.RetConstant{Val: 0}
	keep = bpf.RetConstant{Val: math.MaxUint32}
)

// Apply sets the filter of a socket.
func (f Filter) Apply(file *os.File) error {
	program, err := bpf.Assemble(f.program())
	if err != nil {
		return fmt.Errorf("assemble a filter for %d ports and %d links: %w", len(f.Ports), len(f.Links), err)
	}
	filters := make([]unix.SockFilter, len(program))
	for i, p := range program {
		filters[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	attached := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{
			Len: uint16(len(filters)), Filter: &filters[0],
		})
	})
	if attached != nil {
		return attached
	}
	if err != nil {
		return fmt.Errorf("attach a filter to a netlink socket: %w", err)
	}
	return nil
}

func (f Filter) program() []bpf.Instruction {
	code := []bpf.Instruction{load(portAt, 4)}
	for _, port := range f.Ports {
		code = append(code, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: word(port), SkipTrue: 1}, drop)
	}
	if f.Links != nil && len(f.Links) <= mostLinks {
		code = append(code, of(f.link(), unix.RTM_NEWLINK, unix.RTM_DELLINK)...)
		code = append(code, of(f.entry(), unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH)...)
		code = append(code, of(f.addr(), unix.RTM_NEWADDR, unix.RTM_DELADDR)...)
		code = append(code, of(f.route(), unix.RTM_NEWROUTE, unix.RTM_DELROUTE)...)
		code = append(code, of(f.settings(), unix.RTM_NEWNETCONF, unix.RTM_DELNETCONF)...)
	}
	return append(code, keep)
}

// of returns the code for messages of two kinds; others go on after it.
func of(body []bpf.Instruction, one, other uint16) []bpf.Instruction {
	return append([]bpf.Instruction{
		load(kindAt, 2),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: half(one), SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: half(other), SkipTrue: uint8(len(body))},
	}, body...)
}

// matters keeps the message if the accumulator holds the index of a link that matters.
func (f Filter) matters() []bpf.Instruction {
	var code []bpf.Instruction
	for _, index := range f.Links {
		code = append(code, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: word(uint32(index)), SkipTrue: 1}, keep)
	}
	return code
}

// link drops devices of pods, their ends, and what a bridge tells of them besides. A device's name is the first
// attribute. A veth whose two ends are in this namespace may join bridges, so it is kept. One that is being
// deleted has lost its other end before it goes down, and its partner is 0.
func (f Filter) link() []bpf.Instruction {
	code := append(append([]bpf.Instruction{load(indexAt, 4)}, f.matters()...),
		load(linkAt+2, 2),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: half(unix.IFLA_IFNAME), SkipTrue: 2},
		load(linkAt+headLen, 4),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32([]byte("veth")), SkipTrue: 1},
		keep,
		load(bodyAt, 1),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.AF_BRIDGE, SkipTrue: 1},
		drop,
	)
	code = append(append(code, attribute(unix.IFLA_LINKINFO, linkAt, 4)...), // the kind is the first in it
		bpf.LoadIndirect{Off: 2 * headLen, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32([]byte("veth")), SkipTrue: 1},
		keep,
		load(kindAt, 2),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: half(unix.RTM_DELLINK), SkipTrue: 1},
		drop,
	)
	code = append(append(code, attribute(unix.IFLA_LINK, linkAt, 4)...),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 1},
		drop,
	)
	return append(append(code, attribute(unix.IFLA_LINK_NETNSID, linkAt, 4)...), drop)
}

func (f Filter) entry() []bpf.Instruction {
	return append(append([]bpf.Instruction{load(indexAt, 4)}, f.matters()...), drop)
}

func (f Filter) addr() []bpf.Instruction {
	return append(append([]bpf.Instruction{load(indexAt, 4)}, f.matters()...),
		load(bodyAt, 1),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET6, SkipTrue: 1},
		keep,
		load(scopeAt, 1),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.RT_SCOPE_LINK, SkipTrue: 1},
		keep,
		drop,
	)
}

// route drops IPv6 routes to fe80::/10, the link-local addresses, and to ff00::/8, the groups.
func (f Filter) route() []bpf.Instruction {
	code := []bpf.Instruction{
		load(bodyAt, 1),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET6, SkipTrue: 1},
		keep,
	}
	code = append(code, attribute(unix.RTA_DST, routeAt, 2)...)
	code = append(code,
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: 0xff00, SkipTrue: 6},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xffc0},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0xfe80, SkipTrue: 1},
		keep,
		load(bodyAt+1, 1), // the prefix's length
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: 10, SkipTrue: 1},
		keep,
	)
	code = append(code, attribute(unix.RTA_OIF, routeAt, 4)...)
	return append(append(code, f.matters()...), drop)
}

// settings drops the message with all settings of a device, by which it begins. A change names one.
func (f Filter) settings() []bpf.Instruction {
	code := []bpf.Instruction{
		load(confAt+2, 2),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: half(netconfIndex), SkipTrue: 1},
		keep,
		load(confAt+headLen, 4),
	}
	for _, all := range []int32{-1, -2} { // the settings for all devices and for new ones
		code = append(code, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: word(uint32(all)), SkipTrue: 1}, keep)
	}
	code = append(append(code, f.matters()...),
		load(kindAt, 2),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: half(unix.RTM_DELNETCONF), SkipTrue: 1},
		drop,
	)
	return append(append(code, attribute(netconfProxyNeigh, confAt, 4)...), drop)
}

// attribute loads the beginning of an attribute of those from a place on, and keeps a message without it.
func attribute(kind uint32, from uint32, size int) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadConstant{Dst: bpf.RegX, Val: kind},
		bpf.LoadConstant{Dst: bpf.RegA, Val: from},
		bpf.LoadExtension{Num: bpf.ExtNetlinkAttr}, // its place; 0: there is none
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 1},
		keep,
		bpf.TAX{},
		bpf.LoadIndirect{Off: headLen, Size: size},
	}
}

func load(at uint32, size int) bpf.Instruction { return bpf.LoadAbsolute{Off: at, Size: size} }

// word returns a number as a filter loads it, which reads words in network order; netlink's are in the host's.
func word(v uint32) uint32 { return binary.BigEndian.Uint32(Native.AppendUint32(nil, v)) }

func half(v uint16) uint32 { return uint32(binary.BigEndian.Uint16(Native.AppendUint16(nil, v))) }
