package tunnel

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/driver"
)

const devicePath = "/dev/net/tun"

// CreateDevice makes a TUN device that keeps its addresses and routes while no
// process has it open. The name must be free.
func CreateDevice(name string) error {
	fd, err := openControl()
	if err != nil {
		return err
	}
	err = attach(fd, name, unix.IFF_TUN_EXCL)
	if err == nil {
		err = unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1)
	}
	if err != nil {
		err = fmt.Errorf("make TUN device %s: %w", name, err)
	}
	return errors.Join(err, unix.Close(fd))
}

// openControl opens the device through which the kernel makes TUN devices.
func openControl() (int, error) {
	fd, err := unix.Open(devicePath, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return -1, fmt.Errorf("open %s: %v: %w: load the kernel's module tun, or give the container this device",
			devicePath, err, driver.ErrUnsupported)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return -1, fmt.Errorf("open %s: %w: let this user read and write it, and the container have it among its devices",
			devicePath, err)
	}
	return -1, fmt.Errorf("open %s: %w", devicePath, err)
}

// attach makes fd a queue of a TUN device, which the kernel makes if there is
// none of that name.
func attach(fd int, name string, flags uint16) error {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return fmt.Errorf("device name %q: %w", name, driver.ErrInvalid)
	}
	ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | flags)
	err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w: another process has the device open, perhaps another flanneld", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: it takes CAP_NET_ADMIN in the network namespace", err)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: a device of this name is there and is not a TUN device with one queue", err)
	}
	return err
}

// OpenQueue opens a device that exists, with a virtio-net header before each
// packet or without.
func OpenQueue(name string, vnet bool) (fd, index int, err error) {
	fail := func(err error) (int, int, error) { return -1, 0, fmt.Errorf("open TUN device %s: %w", name, err) }
	before, err := indexOf(name)
	if err != nil {
		return fail(err)
	}
	fd, err = openControl()
	if err != nil {
		return fail(err)
	}
	var flags uint16
	if vnet {
		flags = unix.IFF_VNET_HDR
	}
	err = attach(fd, name, flags)
	if err == nil {
		index, err = indexOf(name)
	}
	if err == nil && index != before { // the device went away meanwhile, and the kernel made another; closing removes it
		err = unix.ENODEV
	}
	if err != nil {
		return fail(errors.Join(err, unix.Close(fd)))
	}
	return fd, index, nil
}

// indexOf returns the index of a link.
func indexOf(name string) (int, error) {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return 0, fmt.Errorf("device name %q: %w", name, driver.ErrInvalid)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifr)
	return int(ifr.Uint32()), errors.Join(err, unix.Close(fd))
}
