package linux

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/driver"
)

// TryESP returns an error if the kernel has no ESP. It adds a key between two addresses
// that no host has (RFC 5737), which makes the kernel load what it needs, and deletes it.
func TryESP() error {
	key := &netlink.XfrmState{
		Src: net.IPv4(192, 0, 2, 1), Dst: net.IPv4(192, 0, 2, 2), Spi: 0x666c616e,
		Proto: netlink.XFRM_PROTO_ESP, Mode: netlink.XFRM_MODE_TUNNEL,
		Crypt: &netlink.XfrmStateAlgo{Name: "cbc(aes)", Key: make([]byte, 16)},
		Auth:  &netlink.XfrmStateAlgo{Name: "hmac(sha256)", Key: make([]byte, 32), TruncateLen: 128},
	}
	err := netlink.XfrmStateAdd(key)
	switch {
	case errors.Is(err, unix.EPROTONOSUPPORT):
		return fmt.Errorf("this kernel has no ESP; `modprobe xfrm_user esp4` may load it: %w", driver.ErrUnsupported)
	case err == nil || errors.Is(err, unix.EEXIST):
		return netlink.XfrmStateDel(key)
	}
	return nil // it has ESP, but not these algorithms
}
