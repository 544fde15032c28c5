package tunnel

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/udppath"
)

// Tier is a way to carry packets.
type Tier string

// The tiers.
const (
	Plain Tier = "plain"
	GSO   Tier = "gso"
)

// carrier is a tier with its device and socket.
type carrier struct {
	*ends
	index  int
	tier   Tier
	reason string
	carry  tier
}

func (c *carrier) close() error { return errors.Join(unix.Close(c.device), unix.Close(c.socket)) }

// choose opens the best tier that the options allow and the kernel supports. It
// tries each feature instead of asking for the kernel's version: distributions
// backport features, and sandboxes remove them.
func choose(p dataplane.Proxy) (*carrier, error) {
	if p.Offload == dataplane.OffloadOff {
		return openPlain(p, "Offload is off")
	}
	if p.Offload != dataplane.OffloadGSO && p.Offload != dataplane.OffloadAuto {
		return nil, fmt.Errorf("option Offload: %q is none of auto, gso, off: %w", p.Offload, driver.ErrInvalid)
	}
	c, err := openGSO(p)
	var lacks lack
	switch {
	case !errors.As(err, &lacks):
		return c, err
	case p.Offload == dataplane.OffloadAuto:
		return openPlain(p, lacks.Error())
	}
	return nil, fmt.Errorf("option Offload is gso: %w: %w; choose auto or off", lacks, driver.ErrUnsupported)
}

// lack is an error about a feature that the kernel does not have.
type lack struct {
	what string
	err  error
}

func (l lack) Error() string { return fmt.Sprintf("the kernel does not have %s (%s)", l.what, l.err) }

func openPlain(p dataplane.Proxy, reason string) (*carrier, error) {
	c, err := openEnds(p, false)
	if err != nil {
		return nil, err
	}
	c.tier, c.reason = Plain, reason
	c.carry = newPlain(c.ends)
	return c, nil
}

func openGSO(p dataplane.Proxy) (*carrier, error) {
	if err := trySegment(); err != nil {
		return nil, err
	}
	c, err := openEnds(p, true)
	if err != nil {
		return nil, err
	}
	uso, err := setOffload(c.device)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.tier, c.reason = GSO, "the kernel has every feature"
	if err := unix.SetsockoptInt(c.socket, unix.SOL_UDP, unix.UDP_GRO, 1); err != nil {
		c.reason = lack{"UDP_GRO, so that datagrams come one by one", err}.Error()
	} else if !uso {
		c.reason = "the kernel has every feature except segmentation of UDP on TUN devices"
	}
	c.carry = newGSO(c.ends, uso)
	return c, nil
}

func openEnds(p dataplane.Proxy, vnet bool) (*carrier, error) {
	device, index, err := OpenQueue(p.Link, vnet)
	if err != nil {
		return nil, err
	}
	socket, err := listen(p.Local)
	if err != nil {
		return nil, errors.Join(err, unix.Close(device))
	}
	e := &ends{device: device, socket: socket, vnet: vnet, replies: packetSender{port: p.Local.Port()}}
	return &carrier{ends: e, index: index}, nil
}

// setOffload makes the kernel leave the work of network cards to us: cutting large
// TCP packets (and UDP packets, if it can), and computing checksums.
func setOffload(device int) (uso bool, err error) {
	if err := unix.IoctlSetPointerInt(device, unix.TUNSETVNETHDRSZ, udppath.VnetSize); err != nil {
		return false, lack{"virtio-net headers on TUN devices", err}
	}
	const tcp = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO_ECN
	const udp = unix.TUN_F_USO4 | unix.TUN_F_USO6 // the kernel wants both or neither
	if unix.IoctlSetInt(device, unix.TUNSETOFFLOAD, tcp|udp) == nil {
		return true, nil
	}
	if err := unix.IoctlSetInt(device, unix.TUNSETOFFLOAD, tcp); err != nil {
		return false, lack{"TCP segmentation on TUN devices", err}
	}
	return false, nil
}

// trySegment sends one message of two datagrams to its own socket.
func trySegment() error {
	const what = "UDP_SEGMENT"
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return lack{what, err}
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, 8); err != nil {
		return lack{what, err}
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if errors.Is(err, unix.EADDRNOTAVAIL) { // the loopback device is down, so the attempt is impossible
		return nil
	}
	var self unix.Sockaddr
	if err == nil {
		self, err = unix.Getsockname(fd)
	}
	if err == nil {
		err = unix.Sendto(fd, make([]byte, 16), 0, self)
	}
	if err != nil {
		return lack{what, err}
	}
	return nil
}
