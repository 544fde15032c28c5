package linuxtest

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Upstream is a stand-in for upstream's udp proxy. It does what interop 6.1 says:
// one packet a call and a datagram, buffers no larger than the device's MTU, every
// sender believed. It sends no ICMP errors.
type Upstream struct {
	Device *os.File     // a TUN device, as [OpenTUN] opens it
	Socket *net.UDPConn // on the node's address and the port of all nodes
	MTU    int          // the device's
	Peers  map[netip.Prefix]netip.AddrPort

	ended chan struct{}
}

// Start carries packets until Close.
func (u *Upstream) Start() {
	u.ended = make(chan struct{}, 2)
	go func() { u.send(); u.ended <- struct{}{} }()
	go func() { u.receive(); u.ended <- struct{}{} }()
}

// Close ends the proxy. The kernel deletes its device, unless that is persistent.
func (u *Upstream) Close() error {
	err := errors.Join(u.Device.Close(), u.Socket.Close())
	<-u.ended
	<-u.ended
	return err
}

// send ends when the device is closed.
func (u *Upstream) send() {
	b := make([]byte, u.MTU)
	for {
		n, err := u.Device.Read(b)
		if err != nil {
			return
		}
		if n < 20 {
			continue
		}
		dst := netip.AddrFrom4([4]byte(b[16:20]))
		for subnet, peer := range u.Peers {
			if subnet.Contains(dst) && hop(b[:n]) {
				_, _ = u.Socket.WriteToUDPAddrPort(b[:n], peer) // a refused packet is lost
			}
		}
	}
}

// receive ends when the socket is closed.
func (u *Upstream) receive() {
	b := make([]byte, u.MTU)
	for {
		n, err := u.Socket.Read(b)
		if err != nil {
			return
		}
		if n >= 20 && hop(b[:n]) {
			_, _ = u.Device.Write(b[:n])
		}
	}
}

// hop lowers the TTL and reports whether any is left.
func hop(ip []byte) bool {
	if ip[8] <= 1 {
		return false
	}
	ip[8]--
	sum := uint32(binary.BigEndian.Uint16(ip[10:])) + 0x100
	binary.BigEndian.PutUint16(ip[10:], uint16(sum+sum>>16))
	return true
}

// OpenTUN opens a TUN device in the network namespace of the thread, without a
// header before each packet, and returns its name. The kernel makes the device if
// it is not there. In a name such as "flannel%d" it puts the first free number.
func OpenTUN(name string) (f *os.File, opened string, err error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, "", err
	}
	ifr, err := unix.NewIfreq(name)
	if err == nil {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err != nil {
		return nil, "", errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "/dev/net/tun"), ifr.Name(), nil
}
