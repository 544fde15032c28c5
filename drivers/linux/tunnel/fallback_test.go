package tunnel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/udppath"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// refusals are ways to make the kernel accept single packets and refuse messages
// of several, and to make it accept them again. Newer kernels refuse with EIO
// only for reasons that no device can produce; UDP-Lite is one of them.
var refusals = []struct {
	errno        unix.Errno
	refuse, take func(h *loopback, s *station) error
}{
	{unix.EIO, protocol(unix.IPPROTO_UDPLITE), protocol(unix.IPPROTO_UDP)},
	{unix.EINVAL, noChecksums(1), noChecksums(0)},
	{unix.EMSGSIZE, pathMTU(900), pathMTU(0)},
}

// TestFallback makes the kernel refuse a message in the middle of a batch: no
// packet is lost, the report says why and for how long the tier sends single
// packets, and afterwards it sends messages of several again.
func TestFallback(t *testing.T) {
	for _, c := range refusals {
		t.Run(c.errno.Error(), func(t *testing.T) {
			h, a, b := newStations(t)
			both := func(do func(*loopback, *station) error) {
				t.Helper()
				if err := errors.Join(do(h, a), do(h, b)); errors.Is(err, unix.EPROTONOSUPPORT) {
					t.Skipf("this kernel has no UDP-Lite, and accepts all other messages of several: %v", err)
				} else if err != nil {
					t.Fatal(err)
				}
			}
			const several, single = 1, 20
			now := time.Now()
			check := func(after time.Duration, messages int, demoted bool) {
				t.Helper()
				now = now.Add(after)
				if got := a.pass(t, b, now); got != messages {
					t.Errorf("%d messages, want %d", got, messages)
				}
				d := a.fallback()
				what := "single packets to 1 of the peers, since the kernel refused messages of several: " + c.errno.Error()
				if !demoted {
					what = ""
				}
				if d.what != what {
					t.Errorf("fallback %q, want %q", d.what, what)
				}
				if left := d.until.Sub(now); demoted && (left < 0 || left > narrowTime) {
					t.Errorf("the fallback lasts for %s", left)
				}
				if a.refused != [drops]uint64{} || b.refused != [drops]uint64{} {
					t.Errorf("refused: %v, %v", a.refused, b.refused)
				}
			}
			check(0, several, false)
			both(c.refuse)
			check(time.Second, single, true)
			check(narrowTime, single, true)       // not tried again
			check(time.Millisecond, single, true) // tried, and refused
			both(c.take)
			check(narrowTime, single, true)
			check(time.Millisecond, several, false)

			both(c.refuse)
			check(time.Second, single, true)
			a.begin(now.Add(narrowTime + time.Millisecond)) // and no packet goes to that peer any more
			if d := a.fallback(); d != (fallback{}) {
				t.Errorf("fallback %q for a peer that gets no packets", d.what)
			}
		})
	}
}

// loopback is a host on which stations send to each other.
type loopback struct {
	*linuxtest.Host
	namespace.Namespace
}

// newStations makes two stations with all offloads.
func newStations(t *testing.T) (h *loopback, a, b *station) {
	t.Helper()
	host := linuxtest.HostOf(t)
	ns := host.Keep(t)
	err := ns.Do(func() (err error) {
		a, err = newStation(t, 1, true)
		if err == nil {
			b, err = newStation(t, 2, true)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return &loopback{host, ns}, a, b
}

// pass sends one packet that stands for twenty, compares the bytes that arrive, and
// returns the number of messages that carried them after the last refusal.
func (s *station) pass(t *testing.T, to *station, now time.Time) int {
	t.Helper()
	const size, count = 1000, 20
	sent := tcp(size * count)
	for i := range size * count {
		sent[40+i] = byte(i / 7)
	}
	if _, err := unix.Write(s.kernel, whole(sent, size)); err != nil {
		t.Fatal(err)
	}
	s.begin(now)
	if o := s.send(s.table); o != dry {
		t.Fatalf("outcome %d of sending", o)
	}
	got := make([]byte, 0, size*count)
	buf := make([]byte, 1<<16)
	for reads := 0; len(got) < size*count; reads++ { // in one piece or several
		to.begin(now)
		to.receive(to.table)
		for n, errno := read(to.kernel, buf); errno == 0; n, errno = read(to.kernel, buf) {
			ip := buf[udppath.VnetSize:n]
			if at := int(binary.BigEndian.Uint32(ip[24:])); at != len(got) {
				t.Fatalf("a packet at %d after %d bytes", at, len(got))
			}
			got = append(got, ip[40:]...)
		}
		if reads == 1000 {
			t.Fatalf("%d of %d bytes arrived", len(got), size*count)
		}
	}
	if !bytes.Equal(got, sent[40:]) {
		t.Error("other bytes arrived")
	}
	return len(s.tier.(*gso).out.sender.msgs)
}

// protocol gives a station a socket of another protocol at the same address:
// UDP-Lite takes no message of several.
func protocol(number int) func(*loopback, *station) error {
	return func(h *loopback, s *station) error {
		at, err := unix.Getsockname(s.socket)
		if err != nil {
			return err
		}
		return h.Namespace.Do(func() error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, number)
			if err != nil {
				return err
			}
			return errors.Join(unix.Dup3(fd, s.socket, unix.O_CLOEXEC), unix.Bind(s.socket, at), unix.Close(fd))
		})
	}
}

// noChecksums turns the outer checksums off, without which the kernel takes no
// messages of several, or on again.
func noChecksums(no int) func(*loopback, *station) error {
	return func(_ *loopback, s *station) error {
		return unix.SetsockoptInt(s.socket, unix.SOL_SOCKET, unix.SO_NO_CHECK, no)
	}
}

// pathMTU returns the MTU of the path to a station; 0: the device's.
func pathMTU(mtu int) func(*loopback, *station) error {
	return func(h *loopback, s *station) error {
		at, err := unix.Getsockname(s.socket)
		if err != nil {
			return err
		}
		lo, err := h.LinkByName("lo")
		if err != nil {
			return err
		}
		ip := at.(*unix.SockaddrInet4).Addr
		return h.RouteReplace(&netlink.Route{
			Dst: linuxtest.IPNet(netip.PrefixFrom(netip.AddrFrom4(ip), 32)), LinkIndex: lo.Attrs().Index,
			Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST, MTU: mtu,
		})
	}
}
