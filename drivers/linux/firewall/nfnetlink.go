package firewall

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
)

// nftables is a socket to the kernel's nf_tables, which only reads. Numbers in
// its messages are in network order.
type nftables struct {
	sockets map[int]*nl.SocketHandle // nil: the kernel has no netfilter to talk to
}

const (
	// patience bounds a wait for an answer that the kernel gives at once, in seconds.
	patience = 30
	// dumpTries is how often a dump is started over when the kernel says that
	// something changed meanwhile.
	dumpTries = 10
	// nfgenLen is the size of struct nfgenmsg, which begins with the family.
	nfgenLen = 4
)

func openNFTables(ns namespace.Namespace) (*nftables, error) {
	var socket *nl.NetlinkSocket
	err := ns.Do(func() (err error) {
		if socket, err = nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_NETFILTER); err != nil {
			return err
		}
		return socket.SetReceiveTimeout(&unix.Timeval{Sec: patience})
	})
	if lacking(err) {
		return &nftables{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open netlink socket to netfilter: %w", err)
	}
	return &nftables{sockets: map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: {Socket: socket}}}, nil
}

func (n *nftables) close() {
	if s := n.sockets[unix.NETLINK_NETFILTER]; s != nil {
		s.Close()
	}
}

// request asks for something of a family and returns the answers.
func (n *nftables) request(kind, flags int, family byte, given ...*nl.RtAttr) ([][]byte, error) {
	for range dumpTries {
		req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags)
		req.Sockets = n.sockets
		req.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: unix.NFNETLINK_V0})
		for _, attr := range given {
			req.AddData(attr)
		}
		answers, err := req.Execute(unix.NETLINK_NETFILTER, 0)
		if !errors.Is(err, nl.ErrDumpInterrupted) {
			return answers, err
		}
	}
	return nil, fmt.Errorf("nftables kept changing while they were read: %w", unix.EAGAIN)
}

// dump yields family and attributes of all objects of a kind.
func (n *nftables) dump(kind int, family byte, given ...*nl.RtAttr) (iter.Seq2[byte, []byte], error) {
	answers, err := n.request(kind, unix.NLM_F_DUMP, family, given...)
	return func(yield func(byte, []byte) bool) {
		for _, b := range answers {
			if len(b) >= nfgenLen && !yield(b[0], b[nfgenLen:]) {
				return
			}
		}
	}, err
}

// generation is a number that every change of nftables increases, those made
// by iptables-nft among them. 0: the kernel has no nftables.
func (n *nftables) generation() (uint32, error) {
	if n.sockets == nil {
		return 0, nil
	}
	answers, err := n.request(unix.NFT_MSG_GETGEN, 0, unix.AF_UNSPEC)
	if lacking(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("ask for the generation of nftables: %w", err)
	}
	for _, b := range answers {
		for kind, value := range attrs(b[min(nfgenLen, len(b)):]) {
			if kind == unix.NFTA_GEN_ID {
				return be32(value), nil
			}
		}
	}
	return 0, nil
}

// lacking reports whether an error says that the kernel has no such interface.
func lacking(err error) bool {
	for _, no := range []unix.Errno{unix.EOPNOTSUPP, unix.EINVAL, unix.EPROTONOSUPPORT, unix.ENOPROTOOPT} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// nftTable is a table as the kernel tells it.
type nftTable struct {
	family  byte
	name    string
	dormant bool // nobody asks its chains
}

func (n *nftables) tables() ([]nftTable, error) {
	answers, err := n.dump(unix.NFT_MSG_GETTABLE, unix.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("list tables of nftables: %w", err)
	}
	var all []nftTable
	for family, b := range answers {
		t := nftTable{family: family}
		for kind, value := range attrs(b) {
			switch kind {
			case unix.NFTA_TABLE_NAME:
				t.name = text(value)
			case unix.NFTA_TABLE_FLAGS:
				t.dormant = be32(value)&unix.NFT_TABLE_F_DORMANT != 0
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// nftChain is a chain as the kernel tells it.
type nftChain struct {
	family   byte
	table    string
	name     string
	based    bool // it stands at a hook
	kind     string
	hook     uint32
	priority int32
	drops    bool // what nobody decided
}

func (n *nftables) chains() ([]nftChain, error) {
	answers, err := n.dump(unix.NFT_MSG_GETCHAIN, unix.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("list chains of nftables: %w", err)
	}
	var all []nftChain
	for family, b := range answers {
		all = append(all, parseChain(family, b))
	}
	return all, nil
}

func parseChain(family byte, b []byte) nftChain {
	c := nftChain{family: family}
	for kind, value := range attrs(b) {
		switch kind {
		case unix.NFTA_CHAIN_TABLE:
			c.table = text(value)
		case unix.NFTA_CHAIN_NAME:
			c.name = text(value)
		case unix.NFTA_CHAIN_TYPE:
			c.kind = text(value)
		case unix.NFTA_CHAIN_POLICY:
			c.drops = be32(value) == verdictDrop
		case unix.NFTA_CHAIN_HOOK:
			c.based = true
			for kind, value := range attrs(value) {
				switch kind {
				case unix.NFTA_HOOK_HOOKNUM:
					c.hook = be32(value)
				case unix.NFTA_HOOK_PRIORITY:
					c.priority = int32(be32(value))
				}
			}
		}
	}
	return c
}

// nftRule is a rule as the kernel tells it: the expressions, one by one.
type nftRule struct {
	chain string
	exprs []byte
}

// rules lists the rules of a chain in order, or of all chains of a table.
func (n *nftables) rules(family byte, table, chain string) ([]nftRule, error) {
	given := []*nl.RtAttr{nl.NewRtAttr(unix.NFTA_RULE_TABLE, nl.ZeroTerminated(table))}
	if chain != "" {
		given = append(given, nl.NewRtAttr(unix.NFTA_RULE_CHAIN, nl.ZeroTerminated(chain)))
	}
	answers, err := n.dump(unix.NFT_MSG_GETRULE, family, given...)
	if errors.Is(err, unix.ENOENT) { // gone since it was listed
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list rules of table %s of nftables: %w", table, err)
	}
	var all []nftRule
	for f, b := range answers {
		var r nftRule
		var of string
		for kind, value := range attrs(b) {
			switch kind {
			case unix.NFTA_RULE_TABLE:
				of = text(value)
			case unix.NFTA_RULE_CHAIN:
				r.chain = text(value)
			case unix.NFTA_RULE_EXPRESSIONS:
				r.exprs = value
			}
		}
		// A kernel that does not filter gives more than was asked for.
		if f == family && of == table && (chain == "" || chain == r.chain) {
			all = append(all, r)
		}
	}
	return all, nil
}

// attrs walks over netlink attributes and stops at the first thing that is none.
func attrs(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			n := int(binary.NativeEndian.Uint16(b))
			if n < unix.SizeofNlAttr || n > len(b) {
				return
			}
			kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if !yield(kind, b[unix.SizeofNlAttr:n]) {
				return
			}
			b = b[min((n+3)&^3, len(b)):]
		}
	}
}

// be32 reads a number, 0 if it is none.
func be32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

func text(b []byte) string { return unix.ByteSliceToString(b) }
