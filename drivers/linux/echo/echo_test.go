package echo

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

func TestMain(m *testing.M) { linuxtest.Main(m) }

var loopback = [2]netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}

// newSender returns a sender, on a host whose loopback device is up.
func newSender(t *testing.T) *Sender {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := New()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestOptionalSource probes from an address that the host does not have, and may not need.
func TestOptionalSource(t *testing.T) {
	s := newSender(t)
	foreign := [2]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	for _, nonlocal := range []string{"0", "1"} { // whether a socket may bind to such an address
		for _, file := range []string{"/proc/sys/net/ipv4/ip_nonlocal_bind", "/proc/sys/net/ipv6/ip_nonlocal_bind"} {
			if err := os.WriteFile(file, []byte(nonlocal), 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range cidr.Families {
			for _, kind := range []probe.Kind{probe.Echo, probe.Large, probe.Connect} {
				r := probe.Request{Kind: kind, Size: probe.SmallSize, From: foreign[f], To: loopback[f], FromOptional: true}
				if a := send(s, r); !a.OK || a.Unable != "" {
					t.Errorf("nonlocal %s, %+v: %+v", nonlocal, r, a)
				}
				r.From = loopback[f]
				if a := send(s, r); !a.OK {
					t.Errorf("nonlocal %s, %+v: %+v", nonlocal, r, a)
				}
			}
		}
	}
	for _, f := range cidr.Families {
		r := withSource(probe.Request{From: loopback[f], FromOptional: true})
		if r.From != loopback[f] {
			t.Errorf("the host's own %s counts as foreign", loopback[f])
		}
	}
}

// send sends a probe and awaits its answer.
func send(s *Sender, r probe.Request) probe.Answer {
	answers := make(chan probe.Answer, 1)
	s.Send(r, func(a probe.Answer) { answers <- a })
	return <-answers
}

func TestAnswers(t *testing.T) {
	s := newSender(t)
	for _, f := range cidr.Families {
		for _, r := range []probe.Request{
			{ID: 1, Kind: probe.Echo, Size: probe.SmallSize},
			{ID: 2, Kind: probe.Large, Size: 1450},
			{ID: 3, Kind: probe.Large, Size: 9001},
			{ID: 4, Kind: probe.Connect},
		} {
			for _, from := range []netip.Addr{{}, loopback[f]} {
				r.To, r.From = loopback[f], from
				t.Run(fmt.Sprint(f, r.Kind, r.Size, from), func(t *testing.T) {
					if a := send(s, r); !a.OK || a.ID != r.ID || a.RTT <= 0 || a.Unable != "" {
						t.Errorf("%+v", a)
					}
				})
			}
		}
	}
}

// TestListenerIsAnAnswer connects to a port at which a program listens.
func TestListenerIsAnAnswer(t *testing.T) {
	newSender(t)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.9:%d", probe.ClosedPort))
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = l.Close() }()
	if a := Probe(probe.Request{Kind: probe.Connect, To: netip.MustParseAddr("127.0.0.9")}); !a.OK {
		t.Errorf("%+v", a)
	}
}

// TestUnreachable probes an address to which the kernel sends nothing, and one from an
// address that this host does not have.
func TestUnreachable(t *testing.T) {
	s := newSender(t)
	for _, r := range []probe.Request{
		{To: netip.MustParseAddr("255.255.255.255")},
		{To: loopback[0], From: netip.MustParseAddr("240.0.0.1")},
	} {
		for _, kind := range []probe.Kind{probe.Echo, probe.Large, probe.Connect} {
			r.ID, r.Kind = 7, kind
			r.Size = probe.SmallSize
			if a := send(s, r); a.OK || a.Unable != "" || a.ID != r.ID {
				t.Errorf("%+v: %+v", r, a)
			}
		}
	}
}

// TestTooBig sends a packet that is larger than any device allows.
func TestTooBig(t *testing.T) {
	s := newSender(t)
	if a := send(s, probe.Request{Kind: probe.Large, Size: 70000, To: loopback[0]}); a.OK || !a.TooBig {
		t.Errorf("%+v", a)
	}
}

func TestHeard(t *testing.T) {
	s := newSender(t)
	before := time.Now()
	for _, f := range cidr.Families {
		send(s, probe.Request{Kind: probe.Echo, Size: probe.SmallSize, To: loopback[f]})
		found := false
		for deadline := time.Now().Add(10 * time.Second); !found && time.Now().Before(deadline); {
			runtime.Gosched()
			heard, listens := s.Heard()
			if !listens {
				t.Fatal("does not listen")
			}
			for _, h := range heard {
				found = found || h.From == loopback[f] && !h.At.Before(before)
			}
		}
		if !found {
			t.Errorf("%s: the probe was not heard", f)
		}
	}
}

func TestParse(t *testing.T) {
	for _, f := range cidr.Families {
		m := newMessage(f, probe.SmallSize)
		m.nonce, m.host = [8]byte{1, 2, 3}, f == cidr.V6
		packet := received(f, m.bytes(f))
		kind, got, ok := parse(f, packet)
		if !ok || kind != echoRequest[f] || got != m || len(m.bytes(f))+headers[f]-icmpHeader != probe.SmallSize {
			t.Errorf("%s: %d %+v %t, want %+v", f, kind, got, ok, m)
		}
		for n := range len(packet) - m.data + len(probe.Magic) + len(m.nonce) {
			if _, _, ok := parse(f, packet[:n]); ok {
				t.Errorf("%s: a packet cut to %d bytes was taken", f, n)
			}
		}
	}
}

// received returns a message as a raw socket receives it.
func received(f cidr.Family, m []byte) []byte {
	if f == cidr.V6 {
		return m
	}
	header := make([]byte, 20)
	header[0] = 0x45
	return append(header, m...)
}

// FuzzParse reads packets that anyone may send.
func FuzzParse(f *testing.F) {
	for _, family := range cidr.Families {
		m := newMessage(family, probe.SmallSize)
		f.Add(family == cidr.V6, received(family, m.bytes(family)))
		reply := m.bytes(family)
		reply[0] = echoReply[family]
		f.Add(family == cidr.V6, received(family, reply))
		f.Add(family == cidr.V6, received(family, reply)[:30])
	}
	f.Add(false, []byte{0x4f, 0})
	f.Fuzz(func(t *testing.T, v6 bool, packet []byte) {
		family := cidr.V4
		if v6 {
			family = cidr.V6
		}
		kind, m, ok := parse(family, packet)
		if !ok {
			return
		}
		again, got, ok := parse(family, received(family, m.bytes(family)))
		if !ok || again != echoRequest[family] || got != m {
			t.Errorf("%d %+v became %d %+v %t", kind, m, again, got, ok)
		}
	})
}

// silent is the address of a host that takes packets and answers none.
var silent = netip.MustParseAddr("10.255.255.1")

// newSilentSender returns a sender on a host of its own, with a wire to silent: no host has
// the MAC to which its packets go. Only small echoes leave from that host.
func newSilentSender(t *testing.T) *Sender {
	t.Helper()
	h := linuxtest.HostOf(t)
	wire := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "wire"}, PeerName: "end"}
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	for _, step := range []func() error{
		func() error { return h.LinkAdd(wire) },
		func() error { return h.LinkSetUp(wire) },
		func() error {
			end, err := h.LinkByName("end")
			return errors.Join(err, h.LinkSetUp(end))
		},
		func() error {
			own := &net.IPNet{IP: silent.Next().AsSlice(), Mask: net.CIDRMask(24, 32)}
			return h.AddrAdd(wire, &netlink.Addr{IPNet: own})
		},
		func() error {
			return h.NeighSet(&netlink.Neigh{
				LinkIndex: wire.Index, IP: silent.AsSlice(), HardwareAddr: mac, State: netlink.NUD_PERMANENT,
			})
		},
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	senders := make(chan *Sender)
	go func() { // the thread is in the host's namespace and ends with the goroutine
		runtime.LockOSThread()
		if err := netns.Set(h.NS); err != nil {
			t.Error(err)
		}
		senders <- New()
	}()
	s := <-senders
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestSilenceEnds sends two echoes that nothing answers, and one that is answered: each
// gets one answer, without further probes.
func TestSilenceEnds(t *testing.T) {
	s := newSilentSender(t)
	answers := make(chan probe.Answer, 3)
	for id, to := range []netip.Addr{silent, loopback[0], silent} {
		s.Send(probe.Request{ID: uint64(id), Kind: probe.Echo, Size: probe.SmallSize, To: to},
			func(a probe.Answer) { answers <- a })
	}
	var got [3]int
	for range 3 {
		a := <-answers
		got[a.ID]++
		if a.OK != (a.ID == 1) || a.Unable != "" {
			t.Errorf("%+v", a)
		}
	}
	if got != [3]int{1, 1, 1} {
		t.Errorf("answers: %v", got)
	}
}

// TestProbeEndsThoseBefore sends an echo when the time of another is up.
func TestProbeEndsThoseBefore(t *testing.T) {
	s := newSilentSender(t)
	var got []uint64
	s.Send(probe.Request{ID: 1, Kind: probe.Echo, Size: probe.SmallSize, To: silent},
		func(a probe.Answer) { got = append(got, a.ID) })
	s.flight.expire(time.Now().Add(probe.Timeout - time.Second))
	if len(got) != 0 {
		t.Fatal("ended before its time")
	}
	s.flight.expire(time.Now().Add(probe.Timeout))
	if len(got) != 1 || len(s.flight.order) != 0 || len(s.flight.waiting) != 0 {
		t.Errorf("ended: %v, %+v", got, s.flight.order)
	}
}

// TestOnlyTheAskedHostAnswers has another host reply to an echo.
func TestOnlyTheAskedHostAnswers(t *testing.T) {
	f := flight{waiting: map[nonce]sentEcho{}}
	defer f.close()
	var got []probe.Answer
	f.begin(nonce{1}, sentEcho{id: 7, to: silent, sent: time.Now(), done: func(a probe.Answer) { got = append(got, a) }})
	f.answered(nonce{1}, loopback[0])
	f.answered(nonce{2}, silent)
	if len(got) != 0 {
		t.Fatalf("taken: %+v", got)
	}
	f.answered(nonce{1}, silent)
	f.answered(nonce{1}, silent)
	if len(got) != 1 || !got[0].OK || got[0].ID != 7 || got[0].RTT <= 0 {
		t.Errorf("%+v", got)
	}
}

// TestHostIsNotHeard passes an ear the echo that asks for the host alone: it has not come by
// the way of pods' packets.
func TestHostIsNotHeard(t *testing.T) {
	for _, host := range []bool{true, false} {
		e := &ear{family: cidr.V4, heard: map[netip.Addr]time.Time{}}
		m := newMessage(cidr.V4, probe.SmallSize)
		m.host = host
		e.received(received(cidr.V4, m.bytes(cidr.V4)), loopback[0])
		if heard := len(e.take()) == 1; heard == host {
			t.Errorf("host %t: heard %t", host, heard)
		}
	}
}
