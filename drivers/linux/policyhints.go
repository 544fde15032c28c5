package linux

import (
	"context"
	"encoding/binary"
	"net/netip"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// The kernel's multicast group and messages about IPsec policies (linux/xfrm.h).
const (
	xfrmPolicyGroup = 4 // XFRMNLGRP_POLICY
	xfrmNewPolicy   = 0x13
	xfrmDelPolicy   = 0x14
	xfrmUpdPolicy   = 0x19
)

// policyHints listens to the kernel's announcements about IPsec policies. It owns one
// goroutine. The driver's own changes are announced too: they lead to one more look.
type policyHints struct {
	file *os.File // the first socket
	end  context.CancelFunc
	done chan struct{}

	mutex    sync.Mutex
	networks []netip.Prefix // policies inside them matter
}

// listenToPolicies listens in a network namespace, and calls hint when a policy that matters may have changed.
func listenToPolicies(ns namespace.Namespace, hint func()) (*policyHints, error) {
	open := func() (file *os.File, err error) {
		err = ns.Do(func() (err error) {
			file, err = nl.Listen(unix.NETLINK_XFRM, []int{xfrmPolicyGroup})
			return err
		})
		return file, err
	}
	file, err := open()
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	h := &policyHints{file: file, end: end, done: make(chan struct{})}
	go h.listen(ctx, open, hint)
	return h, nil
}

// watch sets the extent whose policies matter.
func (h *policyHints) watch(e dataplane.Extent) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.networks = e.Networks
}

// listen reads announcements until ctx ends.
func (h *policyHints) listen(ctx context.Context, open func() (*os.File, error), hint func()) {
	defer close(h.done)
	each := func(b []byte) {
		for m := range nl.Messages(b) {
			if h.matters(m) {
				hint()
			}
		}
	}
	nl.Follower{Open: open, Each: each, Lost: hint}.Follow(ctx, h.file)
}

// matters reports whether an announcement is about a policy that a look would report,
// or about one that it cannot read, such as the removal of all.
func (h *policyHints) matters(m nl.Message) bool {
	begins := slices.Contains([]uint16{xfrmNewPolicy, xfrmUpdPolicy, xfrmDelPolicy}, m.Kind) // with a selector
	key, ok := parseSelector(m.Body)
	if !begins || !ok {
		return true
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return dataplane.Extent{Policies: true, Networks: h.networks}.HasPolicy(key)
}

// parseSelector reads the two ends of a policy from a struct xfrm_selector. It returns
// false for another family than IPv4.
func parseSelector(b []byte) (key dataplane.PolicyKey, ok bool) {
	var s struct {
		Dst, Src                     [16]byte
		DstPort, DstMask             uint16
		SrcPort, SrcMask             uint16
		Family                       uint16
		DstBits, SrcBits, Proto, Pad uint8
	}
	if _, err := binary.Decode(b, nl.Native, &s); err != nil || s.Family != unix.AF_INET {
		return key, false
	}
	key.Src = netip.PrefixFrom(netip.AddrFrom4([4]byte(s.Src[:])), int(s.SrcBits))
	key.Dst = netip.PrefixFrom(netip.AddrFrom4([4]byte(s.Dst[:])), int(s.DstBits))
	return key, true
}

// stop ends the goroutine and closes the socket.
func (h *policyHints) stop() error {
	h.end()
	<-h.done
	return nil
}
