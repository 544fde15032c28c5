package charon

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// fakeKeys are the ESP keys of a kernel, by their numbers.
type fakeKeys struct {
	all     []netlink.XfrmState
	refusal error
}

// add adds a key of flannel's tunnels, with a change of one of its parameters.
func (f *fakeKeys) add(from, to string, change func(*netlink.XfrmState)) {
	s := netlink.XfrmState{
		Src: net.ParseIP(from), Dst: net.ParseIP(to), Spi: 1 + len(f.all), Reqid: dataplane.ReqID,
		Proto: netlink.XFRM_PROTO_ESP, Mode: netlink.XFRM_MODE_TUNNEL, Aead: &netlink.XfrmStateAlgo{},
	}
	change(&s)
	f.all = append(f.all, s)
}

func (f *fakeKeys) list() ([]netlink.XfrmState, error) { return slices.Clone(f.all), nil }

func (f *fakeKeys) drop(key *netlink.XfrmState) error {
	f.all = slices.DeleteFunc(f.all, func(s netlink.XfrmState) bool { return s.Spi == key.Spi })
	return f.refusal
}

// left returns the numbers of the keys.
func (f *fakeKeys) left() string {
	numbers := make([]string, len(f.all))
	for i, s := range f.all {
		numbers[i] = fmt.Sprint(s.Spi)
	}
	return strings.Join(numbers, " ")
}

// The driver shows the keys of flannel's tunnels that charon does not know, and removes the ones it is asked to.
func TestFormerKeys(t *testing.T) {
	n := newNode(t, int(hosts(t).NS))
	kernel := &fakeKeys{}
	n.kernelKeys, n.dropKey = kernel.list, kernel.drop
	same := func(*netlink.XfrmState) {}
	kernel.add("192.168.64.1", "192.168.64.2", same)
	kernel.add("192.168.64.2", "192.168.64.1", same)
	kernel.add("192.168.64.1", "192.168.64.3", same)
	kernel.add("192.168.64.1", "192.168.64.3", same)
	kernel.add("192.168.64.1", "192.168.64.4", func(s *netlink.XfrmState) { s.Reqid = 12 })
	kernel.add("192.168.64.1", "192.168.64.4", func(s *netlink.XfrmState) { s.Mode = netlink.XFRM_MODE_TRANSPORT })
	kernel.add("192.168.64.1", "192.168.64.4", func(s *netlink.XfrmState) { s.Proto = netlink.XFRM_PROTO_AH })
	kernel.add("192.168.64.1", "192.168.64.4", func(s *netlink.XfrmState) { s.Aead = nil }) // only asked for
	kernel.add("192.168.64.1", "192.168.64.4", func(s *netlink.XfrmState) { s.Mark = &netlink.XfrmMark{Value: 5} })
	kernel.add("192.168.64.1", "192.168.64.4", func(s *netlink.XfrmState) { s.Ifid = 7 })
	n.do("add ike charon")
	n.await("ike charon\nformer-key 192.168.64.1 to 192.168.64.2\nformer-key 192.168.64.1 to 192.168.64.3\n" +
		"former-key 192.168.64.2 to 192.168.64.1\n")
	n.do("del former-key 192.168.64.1 to 192.168.64.3")
	if got, want := kernel.left(), "1 2 5 6 7 8 9 10"; got != want {
		t.Errorf("the keys %s are left, want %s", got, want)
	}
	n.await("ike charon\nformer-key 192.168.64.1 to 192.168.64.2\nformer-key 192.168.64.2 to 192.168.64.1\n")

	gone := parse(t, "del former-key 192.168.64.1 to 192.168.64.3", "del former-key 192.168.64.1 to 192.168.64.2")
	for refusal, want := range map[error]error{unix.EPERM: unix.EPERM, unix.ESRCH: nil} { // one that expires meanwhile
		kernel.refusal = refusal
		errs := n.Apply(t.Context(), gone)
		if !errors.Is(errs[0], driver.ErrNotFound) || !errors.Is(errs[1], want) {
			t.Errorf("%v: errors %v", refusal, errs)
		}
	}
}
