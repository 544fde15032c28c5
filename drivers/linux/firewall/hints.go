package firewall

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
	"github.com/flanneld/flannel/internal/wake"
)

// hints listens to the announcements of nf_tables and says when to look again.
// It owns the package's one goroutine.
type hints struct {
	out  wake.Signal
	ns   namespace.Namespace
	file *os.File // the first listening socket; nil: the kernel has no nf_tables
	end  context.CancelFunc
	done chan struct{}
}

func startHints(ns namespace.Namespace) (*hints, error) {
	h, err := newHints(ns)
	switch {
	case lacking(err): // no announcements will come
		h = &hints{out: wake.NewSignal(), done: make(chan struct{})}
		close(h.done)
		return h, nil
	case err == nil:
		ctx, end := context.WithCancel(context.Background())
		h.end = end
		go h.listen(ctx)
	}
	return h, err
}

func newHints(ns namespace.Namespace) (*hints, error) {
	h := &hints{out: wake.NewSignal(), ns: ns, done: make(chan struct{})}
	var err error
	h.file, err = h.open()
	if err != nil {
		return nil, fmt.Errorf("listen for changes of nftables: %w", err)
	}
	return h, nil
}

// open opens a listening socket.
func (h *hints) open() (file *os.File, err error) {
	err = h.ns.Do(func() (err error) {
		file, err = nl.Listen(unix.NETLINK_NETFILTER, []int{unix.NFNLGRP_NFTABLES})
		return err
	})
	return file, err
}

// stop ends the goroutine and closes the socket.
func (h *hints) stop() error {
	if h.file == nil {
		return nil
	}
	h.end()
	<-h.done
	return nil
}

func (h *hints) listen(ctx context.Context) {
	defer close(h.done)
	each := func(b []byte) {
		if anyMatters(b) {
			h.out.Send()
		}
	}
	nl.Follower{Open: h.open, Each: each, Lost: h.out.Send}.Follow(ctx, h.file)
}

// anyMatters reports whether one of the messages is a reason to look.
func anyMatters(b []byte) bool {
	for m := range nl.Messages(b) {
		if len(m.Body) >= nfgenLen && matters(m.Kind, m.Body) {
			return true
		}
	}
	return false
}

// matters reports whether an announcement may be about one of our chains, or
// about one that drops forwarded packets. On a host with kube-proxy most are
// about chains and maps of kube-proxy.
func matters(kind uint16, body []byte) bool {
	if kind>>8 != unix.NFNL_SUBSYS_NFTABLES {
		return false
	}
	a := numbered(body[nfgenLen:])
	switch kind & 0xff {
	case unix.NFT_MSG_NEWTABLE, unix.NFT_MSG_DELTABLE:
		return true
	case unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_DELCHAIN:
		c := parseChain(body[0], body[nfgenLen:])
		return c.based && c.hook == hookForward || isOurs(c.table) || mattersToIPTables(c.table, c.name)
	case unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE:
		table, chain := nl.Text(a[unix.NFTA_RULE_TABLE]), nl.Text(a[unix.NFTA_RULE_CHAIN])
		return isOurs(table) || mattersToIPTables(table, chain)
	}
	return false
}

// isOurs reports whether a table of nftables has one of our names.
func isOurs(table string) bool {
	return table == wordsOf(cidr.V4).table || table == wordsOf(cidr.V6).table
}
