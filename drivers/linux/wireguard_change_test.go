package linux

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/internal/pace"
)

// TestWireGuardChangesUnderTraffic changes a peer again and again while packets go to it. Its allowed IPs are
// never away for a moment, in which a packet would be lost.
func TestWireGuardChangesUnderTraffic(t *testing.T) {
	eachImplementation(t, func(t *testing.T, w *world, userspace bool) {
		pair := newWGPair(t, w, userspace, 0)
		to := netip.MustParsePrefix("10.2.0.0/24")
		apply(t, w.d, wgOps(dataplane.Create,
			dataplane.Addr{Link: wgLink, Prefix: netip.MustParsePrefix("10.1.0.1/32")},
			dataplane.Route{RouteKey: dataplane.RouteKey{Dst: to}, Link: wgLink, Scope: dataplane.ScopeLink}))
		ends := wgEnds{dst: [4]byte{10, 2, 0, 1}}
		err := w.d.ns.Do(func() error { return ends.open(pair.other.Name) })
		if err != nil {
			t.Fatal(err)
		}
		defer ends.close(t)
		changes, stop := make(chan int), make(chan struct{})
		go func() { changes <- changeUntil(t.Context(), stop, w.d, pair, userspace) }()
		packets := 20_000
		if pace.Slowness() > 1 { // an emulated machine
			packets = 1000
		}
		lost := 0
		for range packets {
			lost += ends.loss(t)
		}
		close(stop)
		if n := <-changes; lost > 0 || n < 10 {
			t.Errorf("%d of %d packets lost during %d changes", lost, packets, n)
		}
	})
}

// changeUntil changes both peers until it is stopped, and returns how often it did. It takes an allowed IP
// away only if withdraws: a kernel before Linux 6.16 can only replace all of them.
func changeUntil(ctx context.Context, stop chan struct{}, d *Driver, pair *wgPair, withdraws bool) int {
	toOther, back := pair.toOther, pair.back
	for n := 0; ; n++ {
		select {
		case <-stop:
			return n
		default:
		}
		toOther.Keepalive, back.Keepalive = uint16(60+n%2), uint16(60+n%2)
		toOther.Allowed[cidr.V6] = netip.Prefix{}
		if withdraws && n%3 == 0 {
			toOther.Allowed[cidr.V6] = netip.MustParsePrefix("fd00:2::/64")
		}
		errs := append(d.Apply(ctx, wgOps(dataplane.Replace, toOther)),
			pair.otherDriver.Apply(ctx, wgOps(dataplane.Replace, back))...)
		if err := errors.Join(errs...); err != nil {
			pair.t.Error(err)
		}
	}
}

// wgEnds is a socket that sends to an address, and one that sees all IPv4 packets of a device.
type wgEnds struct {
	dst      [4]byte
	from, to int
}

func (e *wgEnds) open(link string) error {
	device, err := net.InterfaceByName(link)
	if err != nil {
		return err
	}
	e.from, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	const ipv4 = unix.ETH_P_IP<<8&0xff00 | unix.ETH_P_IP>>8
	e.to, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, ipv4)
	if err != nil {
		return errors.Join(err, unix.Close(e.from))
	}
	patience := unix.NsecToTimeval(pace.Scale(5 * time.Second).Nanoseconds())
	return errors.Join(unix.SetsockoptTimeval(e.to, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience),
		unix.Bind(e.to, &unix.SockaddrLinklayer{Protocol: ipv4, Ifindex: device.Index}))
}

func (e *wgEnds) close(t *testing.T) {
	if err := errors.Join(unix.Close(e.from), unix.Close(e.to)); err != nil {
		t.Error(err)
	}
}

// loss sends a packet, and returns 1 if it does not arrive.
func (e *wgEnds) loss(t *testing.T) int {
	packet := make([]byte, 2000)
	err := unix.Sendto(e.from, packet[:100], 0, &unix.SockaddrInet4{Addr: e.dst, Port: 9})
	if err != nil {
		t.Fatal(err)
	}
	for {
		_, _, err := unix.Recvfrom(e.to, packet, 0)
		switch {
		case err == nil:
			return 0
		case errors.Is(err, unix.EAGAIN):
			return 1
		case !errors.Is(err, unix.EINTR):
			t.Fatal(err)
		}
	}
}
