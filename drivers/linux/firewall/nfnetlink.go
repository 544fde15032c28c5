package firewall

import (
	"bytes"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// nftables reads the kernel's nf_tables. Numbers in its messages are in network
// order.
type nftables struct {
	conn *nl.Conn // nil: the kernel has no netfilter
}

// nfgenLen is the size of struct nfgenmsg, which begins with the family.
const nfgenLen = 4

func openNFTables(ns namespace.Namespace) (*nftables, error) {
	n := &nftables{}
	err := ns.Do(func() (err error) {
		n.conn, err = nl.Open(unix.NETLINK_NETFILTER)
		return err
	})
	if lacking(err) {
		return &nftables{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("connect to netfilter: %w", err)
	}
	return n, nil
}

func (n *nftables) close() error {
	if n.conn == nil {
		return nil
	}
	return n.conn.Close()
}

// begin starts a request about objects of a family.
func (n *nftables) begin(kind, flags uint16, family byte) *nl.Encoder {
	n.conn.Begin(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags)
	n.conn.Out.U8(family, unix.NFNETLINK_V0, 0, 0)
	return &n.conn.Out
}

// dump sends the request that begin started. It yields family and attributes of
// each object in the answer, valid until the next request.
func (n *nftables) dump() (iter.Seq2[byte, []byte], error) {
	n.conn.Out.End()
	b, err := n.conn.Dump()
	return func(yield func(byte, []byte) bool) {
		for m := range nl.Messages(b) {
			ours := m.Kind>>8 == unix.NFNL_SUBSYS_NFTABLES && len(m.Body) >= nfgenLen
			if ours && !yield(m.Body[0], m.Body[nfgenLen:]) {
				return
			}
		}
	}, err
}

// generation returns a number that every change of nftables increases,
// including changes by iptables-nft. 0: the kernel has no nftables.
func (n *nftables) generation() (uint32, error) {
	if n.conn == nil {
		return 0, nil
	}
	n.begin(unix.NFT_MSG_GETGEN, 0, unix.AF_UNSPEC).End()
	b, err := n.conn.Do()
	if lacking(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("ask for the generation of nftables: %w", err)
	}
	return nl.BE32(numbered(b[min(nfgenLen, len(b)):])[unix.NFTA_GEN_ID]), nil
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

// nftTable is a table as the kernel describes it.
type nftTable struct {
	family  byte
	name    string
	dormant bool // no packet meets its chains
}

func (n *nftables) tables() ([]nftTable, error) {
	n.begin(unix.NFT_MSG_GETTABLE, unix.NLM_F_DUMP, unix.AF_UNSPEC)
	answers, err := n.dump()
	if err != nil {
		return nil, fmt.Errorf("list tables of nftables: %w", err)
	}
	var all []nftTable
	for family, b := range answers {
		t := nftTable{family: family}
		for kind, value := range nl.Attrs(b) {
			switch kind {
			case unix.NFTA_TABLE_NAME:
				t.name = nl.Text(value)
			case unix.NFTA_TABLE_FLAGS:
				t.dormant = nl.BE32(value)&unix.NFT_TABLE_F_DORMANT != 0
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// nftChain is a chain as the kernel describes it.
type nftChain struct {
	family   byte
	table    string
	name     string
	based    bool // it stands at a hook
	kind     string
	hook     uint32
	priority int32
	drops    bool // the chain's policy, for packets that no rule decides about
}

func (n *nftables) chains() ([]nftChain, error) {
	n.begin(unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP, unix.AF_UNSPEC)
	answers, err := n.dump()
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
	for kind, value := range nl.Attrs(b) {
		switch kind {
		case unix.NFTA_CHAIN_TABLE:
			c.table = nl.Text(value)
		case unix.NFTA_CHAIN_NAME:
			c.name = nl.Text(value)
		case unix.NFTA_CHAIN_TYPE:
			c.kind = nl.Text(value)
		case unix.NFTA_CHAIN_POLICY:
			c.drops = nl.BE32(value) == verdictDrop
		case unix.NFTA_CHAIN_HOOK:
			c.based = true
			for kind, value := range nl.Attrs(value) {
				switch kind {
				case unix.NFTA_HOOK_HOOKNUM:
					c.hook = nl.BE32(value)
				case unix.NFTA_HOOK_PRIORITY:
					c.priority = int32(nl.BE32(value))
				}
			}
		}
	}
	return c
}

// nftRule is a rule as the kernel describes it: its expressions in order.
type nftRule struct {
	chain   string
	exprs   []byte
	comment string
}

// commentType is NFTNL_UDATA_RULE_COMMENT: the kind of a rule's user data that nft shows as a comment.
const commentType = 0

// commentOf returns the comment in a rule's user data: records of a kind, a length and a value.
func commentOf(data []byte) string {
	for len(data) >= 2 && len(data) >= 2+int(data[1]) {
		kind, value := data[0], data[2:2+int(data[1])]
		if kind == commentType {
			return nl.Text(value)
		}
		data = data[2+len(value):]
	}
	return ""
}

// rules lists the rules of a chain in order, or of all chains of a table if chain
// is empty.
func (n *nftables) rules(family byte, table, chain string) ([]nftRule, error) {
	request := n.begin(unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP, family)
	request.AttrString(unix.NFTA_RULE_TABLE, table)
	if chain != "" {
		request.AttrString(unix.NFTA_RULE_CHAIN, chain)
	}
	answers, err := n.dump()
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
		for kind, value := range nl.Attrs(b) {
			switch kind {
			case unix.NFTA_RULE_TABLE:
				of = nl.Text(value)
			case unix.NFTA_RULE_CHAIN:
				r.chain = nl.Text(value)
			case unix.NFTA_RULE_EXPRESSIONS:
				r.exprs = bytes.Clone(value)
			case unix.NFTA_RULE_USERDATA:
				r.comment = commentOf(value)
			}
		}
		// A kernel that does not filter returns more than the request asked
		// for.
		if f == family && of == table && (chain == "" || chain == r.chain) {
			all = append(all, r)
		}
	}
	return all, nil
}
