package firewall

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/drivertest"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// receiver is a node to which a host outside sends packets from any address of their segment.
type receiver struct {
	*scene
	t *testing.T
}

var _ drivertest.FirewallWorld = (*receiver)(nil)

// Admits implements [drivertest.FirewallWorld]. Packets keep their order on the wire, so a packet that is not there
// when a later one is, from an address that no case filters, has been dropped.
func (r *receiver) Admits(_ context.Context, p dataplane.Packet) (bool, error) {
	const fence = 5001
	f := cidr.FamilyOf(p.Src)
	to, from := addresses[f]["node"], p.Src
	place, fencer := "outside", cidr.Last(netip.PrefixFrom(p.Src, [...]int{24, 64}[f])).Prev()
	if p.In == "lo" {
		place, from = "node", to
		fencer = to
	}
	for _, a := range []netip.Addr{from, fencer} {
		if err := r.own(place, a); err != nil {
			return false, err
		}
	}
	in, err := r.open("node", p, to)
	if err != nil {
		return false, err
	}
	defer in.Close()
	end := r.listen(r.t, "node", netip.AddrPortFrom(to, fence))
	defer end.Close()
	if err := r.send(place, p, from, to); err != nil {
		return false, err
	}
	if err := r.send(place, dataplane.Packet{Proto: dataplane.ProtoUDP, Port: fence}, fencer, to); err != nil {
		return false, err
	}
	if err := end.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return false, err
	}
	if _, _, err := end.ReadFrom(make([]byte, 100)); err != nil {
		return false, fmt.Errorf("the packet that every filter admits: %w", err)
	}
	return holds(in)
}

// holds reports whether a packet waits at a socket.
func holds(c net.PacketConn) (there bool, err error) {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return false, err
	}
	err = raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 100), unix.MSG_DONTWAIT)
		there = err == nil
		return true
	})
	return there, err
}

// own gives a place an address.
func (r *receiver) own(place string, a netip.Addr) error {
	return r.places[place].Do(func() error {
		eth0, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		has, err := eth0.Addrs()
		if err != nil {
			return err
		}
		for _, h := range has {
			if h.(*net.IPNet).IP.Equal(a.AsSlice()) {
				return nil
			}
		}
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		addr := &netlink.Addr{IPNet: linuxtest.IPNet(netip.PrefixFrom(a, a.BitLen()))}
		if a.Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		return netlink.AddrAdd(link, addr)
	})
}

// open receives a kind of packets.
func (r *receiver) open(place string, p dataplane.Packet, at netip.Addr) (c net.PacketConn, err error) {
	err = r.places[place].Do(func() (err error) {
		if p.Proto == dataplane.ProtoUDP {
			c, err = net.ListenPacket("udp", netip.AddrPortFrom(at, p.Port).String())
			return err
		}
		c, err = net.ListenPacket(fmt.Sprintf("ip4:%d", p.Proto), at.String())
		return err
	})
	return c, err
}

// send sends one packet.
func (r *receiver) send(place string, p dataplane.Packet, from, to netip.Addr) error {
	if p.Proto == dataplane.ProtoUDP {
		c, err := r.dial(place, from, netip.AddrPortFrom(to, p.Port), 0)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("packet"))
		return err
	}
	c, err := r.open(place, p, from)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WriteTo([]byte("packet"), &net.IPAddr{IP: to.AsSlice()})
	return err
}
