package tunnel

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/udppath"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// station is a tier between a socket pair, which stands for a device, and a UDP
// socket on the loopback device.
type station struct {
	*ends
	tier
	kernel int // the other end of the device
	table  *udppath.Table
}

// TestSteadyStateAllocatesNothing carries packets from one station to another,
// alone and, where the tier can, as one packet that stands for twenty.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	ns := linuxtest.HostOf(t).Keep(t)
	buf := make([]byte, 1<<16)
	for _, c := range []struct {
		what   string
		vnet   bool
		packet []byte
	}{
		{what: "plain", packet: tcp(1000)},
		{what: "gso, one packet", vnet: true, packet: append(make([]byte, udppath.VnetSize), tcp(1000)...)},
		{what: "gso, twenty packets", vnet: true, packet: whole(tcp(20*1000), 1000)},
	} {
		t.Run(c.what, func(t *testing.T) {
			var a, b *station
			if err := ns.Do(func() (err error) {
				a, err = newStation(t, 1, c.vnet)
				if err == nil {
					b, err = newStation(t, 2, c.vnet)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			got := testing.AllocsPerRun(100, func() {
				if _, err := unix.Write(a.kernel, c.packet); err != nil {
					t.Fatal(err)
				}
				a.begin(time.Now())
				a.send(a.table)
				n := 0
				for n < len(c.packet) { // in one piece or several
					b.begin(time.Now())
					b.receive(b.table)
					for m, errno := read(b.kernel, buf); errno == 0; m, errno = read(b.kernel, buf) {
						n += m
					}
				}
			})
			if got != 0 {
				t.Errorf("%v allocations", got)
			}
			if a.refused != [drops]uint64{} || b.refused != [drops]uint64{} {
				t.Errorf("refused: %v, %v", a.refused, b.refused)
			}
		})
	}
}

// TestSendsAllOfAPacket lets the kernel leave one packet whole that holds more
// datagrams than fit into one batch. All of them must leave at once, since
// perhaps no later event wakes the loop.
func TestSendsAllOfAPacket(t *testing.T) {
	const size = 3 * outPackets
	ns := linuxtest.HostOf(t).Keep(t)
	var a, b *station
	if err := ns.Do(func() (err error) {
		a, err = newStation(t, 1, true)
		if err == nil {
			b, err = newStation(t, 2, true)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(a.kernel, whole(tcp(size), 1)); err != nil {
		t.Fatal(err)
	}
	a.begin(time.Now())
	a.send(a.table)
	got := 0
	buf := make([]byte, 1<<16)
	for outcome := busy; outcome == busy; {
		b.begin(time.Now())
		outcome = b.receive(b.table)
		for n, errno := read(b.kernel, buf); errno == 0; n, errno = read(b.kernel, buf) {
			got += n - udppath.VnetSize - 40
		}
	}
	if got != size {
		t.Errorf("%d of %d bytes arrived", got, size)
	}
}

// newStation runs in the namespace, on another goroutine, so it must not end
// the test.
func newStation(t *testing.T, i byte, vnet bool) (*station, error) {
	const port = 8285
	at := func(i byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, i}) }
	of := func(i byte) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, i, 0}), 24) }
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	socket, err := listen(netip.AddrPortFrom(at(i), port))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { unix.Close(socket) })
	e := &ends{device: fds[1], socket: socket, vnet: vnet, replies: packetSender{port: port}}
	s := &station{kernel: fds[0], ends: e}
	s.tier = newPlain(s.ends)
	if vnet {
		s.tier = newGSO(s.ends, true)
		err = unix.SetsockoptInt(socket, unix.SOL_UDP, unix.UDP_GRO, 1)
	}
	if err == nil {
		s.table, err = udppath.NewTable(udppath.Local{Addr: of(i).Addr(), Subnet: of(i), MTU: 1472},
			udppath.Peer{Subnet: of(3 - i), PublicIP: at(3 - i)})
	}
	return s, err
}

// tcp returns a packet from the first station to the second.
func tcp(payload int) []byte {
	ip := make([]byte, 40+payload)
	ip[0], ip[6] = 0x45, 0x40
	ip[8], ip[9] = 64, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	copy(ip[12:], []byte{10, 5, 1, 7, 10, 5, 2, 9})
	ip[32], ip[33] = 0x50, 0x10
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum>>16+sum&0xffff))
	return ip
}

// whole returns a packet as a kernel leaves it.
func whole(packet []byte, size int) []byte {
	var b [udppath.VnetSize]byte
	udppath.Vnet{
		Flags: udppath.VnetNeedsCsum, GSOType: udppath.VnetGSOTCPv4, HeaderLen: 40, GSOSize: uint16(size),
		CsumStart: 20, CsumOffset: 16,
	}.Put(&b)
	return append(b[:], packet...)
}
