package linux

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// The commands of ioctl SIOCETHTOOL (Linux include/uapi/linux/ethtool.h) that read and
// change whether a device leaves checksums to the device below it.
const (
	ethtoolGetTxChecksum = 0x16 // ETHTOOL_GTXCSUM
	ethtoolSetTxChecksum = 0x17 // ETHTOOL_STXCSUM
)

// ethtoolValue is struct ethtool_value.
type ethtoolValue struct{ command, data uint32 }

// ethtoolRequest is struct ifreq of ioctl SIOCETHTOOL, whose union has 24 bytes.
type ethtoolRequest struct {
	name  [unix.IFNAMSIZ]byte
	value *ethtoolValue
	_     [24 - unsafe.Sizeof(uintptr(0))]byte
}

// ethtool runs a command on a device of the calling thread's namespace.
func ethtool(link string, value *ethtoolValue) error {
	request := ethtoolRequest{value: value}
	if len(link) >= len(request.name) {
		return fmt.Errorf("link %q: %w", link, unix.ENODEV)
	}
	copy(request.name[:], link)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	err = unix.Close(fd)
	if errno != 0 {
		return fmt.Errorf("ethtool of link %s: %w", link, errno)
	}
	return err
}

// readTxChecksum returns false if there is no such device, or it has no such feature.
func readTxChecksum(link string) (string, bool, error) {
	value := ethtoolValue{command: ethtoolGetTxChecksum}
	err := ethtool(link, &value)
	switch {
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.EOPNOTSUPP):
		return "", false, nil
	case err != nil:
		return "", false, err
	case value.data != 0:
		return dataplane.FeatureOn, true, nil
	}
	return dataplane.FeatureOff, true, nil
}

// writeTxChecksum changes the feature, and reads it back: the kernel may leave a
// feature as it is without an error.
func writeTxChecksum(link, to string) error {
	value := ethtoolValue{command: ethtoolSetTxChecksum}
	if to == dataplane.FeatureOn {
		value.data = 1
	} else if to != dataplane.FeatureOff {
		return fmt.Errorf("value %q is neither on nor off: %w", to, driver.ErrInvalid)
	}
	err := ethtool(link, &value)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	}
	if err != nil {
		return err
	}
	now, there, err := readTxChecksum(link)
	switch {
	case err != nil:
		return err
	case !there:
		return fmt.Errorf("link %s has gone: %w", link, driver.ErrNotFound)
	case now != to:
		return fmt.Errorf("the kernel keeps it %s: %w", now, driver.ErrDenied)
	}
	return nil
}
