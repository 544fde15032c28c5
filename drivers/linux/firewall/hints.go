package firewall

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
)

// hints listens to what nf_tables announces and says when to look again. It
// owns the package's one goroutine.
type hints struct {
	out  chan struct{}
	file *os.File // the listening socket, in the runtime's poller; nil: nobody announces anything
	done chan struct{}
}

// hintRoom is the size of the buffer for announcements. A bigger one is lost,
// which is a hint in itself.
const hintRoom = 64 << 10

func startHints(ns namespace.Namespace) (*hints, error) {
	h, err := newHints(ns)
	switch {
	case lacking(err): // there will be no announcements
		h = &hints{out: make(chan struct{}), done: make(chan struct{})}
		close(h.done)
		return h, nil
	case err == nil:
		go h.listen()
	}
	return h, err
}

func newHints(ns namespace.Namespace) (*hints, error) {
	h := &hints{out: make(chan struct{}, 1), done: make(chan struct{})}
	err := ns.Do(func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_NETFILTER)
		if err != nil {
			return err
		}
		h.file = os.NewFile(uintptr(fd), "nfnetlink")
		return errors.Join(
			unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
			unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_NFTABLES),
		)
	})
	if err != nil && h.file != nil {
		err = errors.Join(err, h.file.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("listen for changes of nftables: %w", err)
	}
	return h, nil
}

// stop ends the goroutine and closes the socket.
func (h *hints) stop() error {
	if h.file == nil {
		return nil
	}
	err := h.file.Close()
	<-h.done
	return err
}

func (h *hints) listen() {
	defer close(h.done)
	buf := make([]byte, hintRoom)
	for {
		n, err := h.file.Read(buf)
		switch {
		case errors.Is(err, unix.ENOBUFS): // announcements were lost
			h.give()
		case err != nil: // closed
			return
		case anyMatters(buf[:n]):
			h.give()
		}
	}
}

func (h *hints) give() {
	select {
	case h.out <- struct{}{}:
	default: // one is waiting already
	}
}

// anyMatters tells whether one of the messages is a reason to look.
func anyMatters(b []byte) bool {
	for len(b) >= unix.NLMSG_HDRLEN {
		n := int(binary.NativeEndian.Uint32(b))
		if n < unix.NLMSG_HDRLEN+nfgenLen || n > len(b) {
			return false
		}
		if matters(binary.NativeEndian.Uint16(b[4:]), b[unix.NLMSG_HDRLEN:n]) {
			return true
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return false
}

// matters tells whether an announcement can be about something of ours, or
// about who drops forwarded packets. On a host with kube-proxy most are not:
// they are about chains and maps of its own.
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
		table, chain := text(a[unix.NFTA_RULE_TABLE]), text(a[unix.NFTA_RULE_CHAIN])
		return isOurs(table) || mattersToIPTables(table, chain)
	}
	return false
}

// isOurs reports whether a table of nftables has one of our names.
func isOurs(table string) bool {
	return table == wordsOf(cidr.V4).table || table == wordsOf(cidr.V6).table
}
