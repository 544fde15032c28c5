package linux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/udppath"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

const (
	offloadTCP = unix.TUN_F_CSUM | unix.TUN_F_TSO4
	offloadUDP = unix.TUN_F_USO4 | unix.TUN_F_USO6
)

// TestKernelCutsJoinedPackets sends packets that package udppath joined from one
// TUN device to another through the kernel, and compares the result with the
// originals: once where the kernel must cut the packet, and once where it
// leaves that to the reader.
func TestKernelCutsJoinedPackets(t *testing.T) {
	for _, c := range []struct {
		what      string
		proto     byte
		flags     byte // of TCP
		size, all int  // of payload
		id        uint16
		fragment  byte
	}{
		{what: "TCP", proto: unix.IPPROTO_TCP, flags: 0x10, size: 1420, all: 45 * 1420, id: 65530},
		{
			what:  "TCP, with FIN and PSH, a shorter last one",
			proto: unix.IPPROTO_TCP, flags: 0x19, size: 1420, all: 5*1420 + 3,
		},
		{what: "TCP with DF and ECE", proto: unix.IPPROTO_TCP, flags: 0x50, size: 500, all: 50000, fragment: 0x40},
		{what: "TCP by the byte", proto: unix.IPPROTO_TCP, flags: 0x10, size: 1, all: 300},
		{what: "UDP", proto: unix.IPPROTO_UDP, size: 1000, all: 63*1000 + 1, id: 9},
		{what: "UDP with DF", proto: unix.IPPROTO_UDP, size: 9, all: 64 * 9, fragment: 0x40},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := newTunnels(t)
			packet, vnet := leftWhole(c.proto, c.flags, c.size, c.all)
			binary.BigEndian.PutUint16(packet[4:], c.id)
			packet[6] = c.fragment
			packets := cut(t, packet, vnet)
			want := cut(t, lowered(packet), vnet)
			for _, out := range []tunFile{w.plain, w.offload} {
				w.routeTo(t, out)
				w.write(t, packets)
				var got [][]byte
				for len(got) < len(want) {
					got = append(got, out.read(t)...)
				}
				if !slices.EqualFunc(want, got, bytes.Equal) {
					t.Errorf("out of %s (-want +got):\n%s", out.name, cmp.Diff(want, got))
				}
			}
		})
	}
}

// leftWhole returns a packet as a kernel passes it on whole, except for the
// header checksum.
func leftWhole(proto, flags byte, size, all int) ([]byte, udppath.Vnet) {
	vnet := udppath.Vnet{GSOType: udppath.VnetGSOTCPv4, GSOSize: uint16(size)}
	header := 40
	if proto == unix.IPPROTO_UDP {
		vnet.GSOType, header = udppath.VnetGSOUDP, 28
	}
	b := make([]byte, header+all)
	for i := range b {
		b[i] = byte(i * 7)
	}
	clear(b[:20])
	b[0], b[8] = 0x45, 64
	b[9] = proto
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	copy(b[12:], []byte{10, 5, 1, 7, 10, 5, 2, 9})
	if proto == unix.IPPROTO_TCP {
		b[32], b[33] = 0x50, flags
	}
	return b, vnet
}

// lowered returns the packet as it is behind the next router. Cutting a packet
// computes all checksums again.
func lowered(packet []byte) []byte {
	b := bytes.Clone(packet)
	b[8]--
	return b
}

// cut returns the packets that a whole one stands for.
func cut(t *testing.T, packet []byte, vnet udppath.Vnet) (packets [][]byte) {
	t.Helper()
	var s udppath.Splitter
	if reason := s.Start(bytes.Clone(packet), vnet); reason != udppath.Passed {
		t.Fatalf("cannot be cut: %s", reason)
	}
	arena := make([]byte, udppath.MaxSegmentHeader)
	for seg, ok := s.Next(arena); ok; seg, ok = s.Next(arena) {
		packets = append(packets, bytes.Join([][]byte{seg.Header, seg.Payload}, nil))
	}
	return packets
}

// tunFile is an open TUN device with its name.
type tunFile struct {
	name string
	*os.File
	vnet bool
}

// tunnels is a host that forwards, with one device to write to and two to read
// from.
type tunnels struct {
	*linuxtest.Host
	in, plain, offload tunFile
}

func newTunnels(t *testing.T) *tunnels {
	t.Helper()
	needTUN(t)
	h := linuxtest.HostOf(t)
	w := &tunnels{Host: h, in: tunFile{name: "in", vnet: true}, plain: tunFile{name: "plain"},
		offload: tunFile{name: "offload", vnet: true}}
	var made error
	done := make(chan struct{})
	go func() { // the thread is in the host's namespace and ends with the goroutine
		defer close(done)
		runtime.LockOSThread()
		made = errors.Join(netns.Set(h.NS), os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
		for _, d := range []*tunFile{&w.in, &w.plain, &w.offload} {
			if made == nil {
				made = d.open()
			}
		}
	}()
	<-done
	if errors.Is(made, fs.ErrNotExist) || errors.Is(made, fs.ErrPermission) || errors.Is(made, unix.EINVAL) {
		t.Skipf("this kernel has no TUN device with UDP segmentation: %v", made)
	}
	if made != nil {
		t.Fatal(made)
	}
	for _, d := range []tunFile{w.in, w.plain, w.offload} {
		t.Cleanup(func() { d.Close() })
		l, err := h.LinkByName(d.name)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(h.LinkSetTxQLen(l, 1000), h.LinkSetUp(l)); err != nil {
			t.Fatal(err)
		}
	}
	// Without a route back the kernel would drop the packet for its source
	// (rp_filter).
	w.route(t, "10.5.1.0/24", w.in)
	return w
}

// open makes the device, in the namespace of the thread.
func (d *tunFile) open() error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	request, err := unix.NewIfreq(d.name)
	flags := uint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if d.vnet {
		flags |= unix.IFF_VNET_HDR
	}
	if err == nil {
		request.SetUint16(flags)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil && d.vnet {
		err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offloadTCP|offloadUDP)
	}
	d.File = os.NewFile(uintptr(fd), d.name)
	return err
}

func (w *tunnels) routeTo(t *testing.T, d tunFile) { w.route(t, "10.5.2.0/24", d) }

func (w *tunnels) route(t *testing.T, to string, d tunFile) {
	t.Helper()
	l, err := w.LinkByName(d.name)
	if err != nil {
		t.Fatal(err)
	}
	dst, err := netlink.ParseIPNet(to)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.RouteReplace(&netlink.Route{Dst: dst, LinkIndex: l.Attrs().Index, Scope: netlink.SCOPE_LINK}); err != nil {
		t.Fatal(err)
	}
}

// write joins the packets into one, and writes it.
func (w *tunnels) write(t *testing.T, packets [][]byte) {
	t.Helper()
	j := udppath.NewJoiner(true)
	for _, p := range packets {
		j.Add(bytes.Clone(p))
	}
	joined, _ := j.Next()
	if len(joined.Pieces) != len(packets) {
		t.Fatalf("%d packets of %d were joined", len(joined.Pieces), len(packets))
	}
	var vnet [udppath.VnetSize]byte
	joined.Vnet.Put(&vnet)
	if _, err := w.in.Write(bytes.Join(append([][]byte{vnet[:]}, joined.Pieces...), nil)); err != nil {
		t.Fatalf("write %+v: %v", joined.Vnet, err)
	}
}

// read returns the next IPv4 packet from the device, cut if the kernel left it
// whole.
func (d tunFile) read(t *testing.T) [][]byte {
	t.Helper()
	b := make([]byte, 1<<17)
	for {
		if err := d.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := d.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		packet, vnet := b[:n], udppath.Vnet{}
		if d.vnet {
			vnet = udppath.ParseVnet((*[udppath.VnetSize]byte)(packet))
			packet = packet[udppath.VnetSize:]
		}
		if packet[0]>>4 != 4 {
			continue // the kernel sends IPv6 router solicitations by itself
		}
		if d.vnet && vnet.GSOType == udppath.VnetGSONone {
			t.Fatal("the kernel cut a packet that it should leave whole")
		}
		return cut(t, packet, vnet)
	}
}
