package linux

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/drivertest"
)

const wgLink = "flannel-wg"

// wgExtent covers what the tests make.
var wgExtent = dataplane.Extent{
	Links: []string{wgLink}, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	Keys: []dataplane.SecretName{dataplane.WireGuardKey}, Kinds: []dataplane.LinkKind{dataplane.LinkWireGuard},
}

// wgDevice returns the link with the key of the test's secrets.
func wgDevice(t testing.TB, userspace bool) dataplane.Link {
	t.Helper()
	key, err := drivertest.Secrets{}.Secret(dataplane.WireGuardKey)
	if err != nil {
		t.Fatal(err)
	}
	return dataplane.Link{Name: wgLink, MTU: 1420, Up: true, Params: dataplane.WireGuard{
		ListenPort: 51820, PublicKey: key.PublicKey(), Userspace: userspace,
	}}
}

func wgPeerNumber(i int) dataplane.WGPeer {
	secret, err := dataplane.SecretOf(sha256.New().Sum(fmt.Appendf(nil, "%032d", i))[:32])
	if err != nil {
		panic(err) // it has 32 bytes
	}
	return dataplane.WGPeer{
		WGPeerKey: dataplane.WGPeerKey{Link: wgLink, Public: secret.PublicKey()},
		Endpoint:  netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 168, byte(i >> 8), byte(i)}), 51820),
		Allowed:   [2]netip.Prefix{cidr.V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i>>8) + 1, byte(i), 0}), 24)},
	}
}

// eachImplementation runs a test or benchmark for those that this host has.
func eachImplementation[T interface {
	testing.TB
	Run(string, func(T)) bool
}](t T, run func(t T, w *world, userspace bool)) {
	t.Run("userspace", func(t T) {
		needTUN(t)
		run(t, newWorld(t), true)
	})
	t.Run("kernel", func(t T) {
		w := newWorld(t)
		needWireGuard(t, w)
		run(t, w, false)
	})
}

func wgOps(verb dataplane.Verb, objects ...dataplane.Object) []dataplane.Op {
	var ops []dataplane.Op
	for _, o := range objects {
		ops = append(ops, dataplane.Op{Verb: verb, Object: o})
	}
	return ops
}

// TestWireGuardOutlivesDriver opens a second driver after the first, which had a session with another device: the
// device still has its address and route, so that no packet for the peer takes another way. A device of the
// kernel still has its key, its peer and the session, and keeps the session when the second driver sets them again. The
// second driver sets those of a userspace device, which begins another session.
func TestWireGuardOutlivesDriver(t *testing.T) { eachImplementation(t, outlivesDriver) }

func outlivesDriver(t *testing.T, w *world, userspace bool) {
	noIPv6 := dataplane.Sysctl{Path: "net/ipv6/conf/default/disable_ipv6", Value: "1"} // and no link-local routes
	if err := w.d.ns.Do(func() error { return writeSysctl(dataplane.Replace, noIPv6) }); err != nil {
		t.Fatal(err)
	}
	first := must(Open(t.Context(), w.NS, drivertest.Secrets{}))
	pair := newWGPair(t, w.with(first), userspace, 0)
	network := wgOps(dataplane.Replace,
		dataplane.Addr{Link: wgLink, Prefix: netip.MustParsePrefix("10.1.0.0/32")},
		dataplane.Route{RouteKey: dataplane.RouteKey{Dst: netip.MustParsePrefix("10.0.0.0/8")}, Link: wgLink,
			Protocol: dataplane.Protocol})
	apply(t, first, network)
	look := func(d *Driver) *dataplane.State {
		state := must(d.Look(t.Context(), wgExtent)).State.Clone()
		state.Running = nil // counts packets of the host itself
		return state
	}
	before := look(first)
	session := before.Handshakes[pair.toOther.WGPeerKey]
	if session.IsZero() {
		t.Fatalf("no session before:\n%s", before.Dump())
	}
	// A device does not answer two requests of a peer within 20 ms, and the peer repeats the second after five seconds.
	eventually(t, "the peer answers requests", func() bool { return time.Since(session) > 50*time.Millisecond })
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	after, want := look(w.d), before
	if userspace {
		want = withoutProgram(before)
	}
	if !after.Equal(want) {
		t.Errorf("after, with handshakes %v:\n%swant, with handshakes %v:\n%s",
			after.Handshakes, after.Dump(), want.Handshakes, want.Dump())
	}
	apply(t, w.d, append(wgOps(dataplane.Replace, wgDevice(t, userspace), pair.toOther), network...))
	if userspace {
		eventually(t, "another session", pair.sees(w.d, pair.toOther.WGPeerKey, "127.0.0.1:51821"))
	}
	again := look(w.d)
	if again.Dump() != before.Dump() {
		t.Errorf("again:\n%sbefore:\n%s", again.Dump(), before.Dump())
	}
	if last := again.Handshakes[pair.toOther.WGPeerKey]; last.Equal(session) == userspace {
		t.Errorf("the session is of %v, before of %v", last, session)
	}
}

// withoutProgram returns a state in which no process runs the userspace device.
func withoutProgram(s *dataplane.State) *dataplane.State {
	without := s.Clone()
	without.AddLink(dataplane.Link{Name: wgLink, MTU: 1420, Up: true, Params: dataplane.WireGuard{Userspace: true}})
	without.WGPeers = dataplane.Table[dataplane.WGPeerKey, dataplane.WGPeer]{}
	clear(without.Alive)
	clear(without.Handshakes)
	return without
}

// TestWireGuardMissing asks a kernel without WireGuard for a device.
func TestWireGuardMissing(t *testing.T) {
	w := newWorld(t)
	if _, err := w.d.wg.inKernel(); !errors.Is(err, driver.ErrUnsupported) {
		t.Skip("this kernel has WireGuard")
	}
	err := w.d.Apply(t.Context(), wgOps(dataplane.Create, wgDevice(t, false)))[0]
	if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "modprobe wireguard") {
		t.Errorf("error %v", err)
	}
	seen, err := w.d.Look(t.Context(), wgExtent)
	if err != nil {
		t.Fatal(err)
	}
	reason := "the kernel has no links of type wireguard; run: modprobe wireguard"
	if got := seen.Facts.(driver.HostFacts).Unsupported[dataplane.LinkWireGuard]; got != reason {
		t.Errorf("the facts say %q", got)
	}
}

// TestWireGuardEndGivesHint deletes the TUN device of a device in userspace.
func TestWireGuardEndGivesHint(t *testing.T) {
	needTUN(t)
	w := newWorld(t)
	apply(t, w.d, wgOps(dataplane.Create, wgDevice(t, true)))
	running := w.d.wg.running[wgLink]
	drain(w.d.Hints())
	if err := w.host.LinkDel(must(w.host.LinkByName(wgLink))); err != nil {
		t.Fatal(err)
	}
	expectHint(t, w.d.hints)
	<-running.Ended()
	apply(t, w.d, wgOps(dataplane.Create, wgDevice(t, true)))
	if state := w.look(t, wgExtent); state.Links[wgLink] != wgDevice(t, true) {
		t.Errorf("made again:\n%s", state.Dump())
	}
}

// TestWireGuardPortTaken asks for a port that another program has.
func TestWireGuardPortTaken(t *testing.T) {
	eachImplementation(t, func(t *testing.T, w *world, userspace bool) {
		other := wgDevice(t, userspace)
		other.Name = "other"
		apply(t, w.d, wgOps(dataplane.Create, other))
		err := w.d.Apply(t.Context(), wgOps(dataplane.Create, wgDevice(t, userspace)))[0]
		if !errors.Is(err, driver.ErrBusy) {
			t.Errorf("error %v", err)
		}
		if state := w.look(t, wgExtent); len(state.Links) > 0 {
			t.Errorf("left behind:\n%s", state.Dump())
		}
	})
}

// BenchmarkWireGuard measures what the driver and the device need for 5,000 peers.
func BenchmarkWireGuard(b *testing.B) {
	const peers = 5000
	eachImplementation(b, func(b *testing.B, w *world, userspace bool) {
		apply(b, w.d, wgOps(dataplane.Create, wgDevice(b, userspace)))
		var all []dataplane.Object
		for i := range peers {
			all = append(all, wgPeerNumber(i))
		}
		add, del := wgOps(dataplane.Create, all...), wgOps(dataplane.Delete, all...)
		b.Run("start", func(b *testing.B) {
			for b.Loop() {
				apply(b, w.d, add)
				b.StopTimer()
				apply(b, w.d, del)
				b.StartTimer()
			}
		})
		apply(b, w.d, add)
		b.Run("look", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n := w.look(b, wgExtent).WGPeers.Len(); n != peers {
					b.Fatalf("%d peers", n)
				}
			}
			b.ReportMetric(rss(b), "rss-MB")
		})
		b.Run("change", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				p := wgPeerNumber(7)
				p.Endpoint = netip.AddrPortFrom(p.Endpoint.Addr(), uint16(1+i))
				apply(b, w.d, wgOps(dataplane.Replace, p))
			}
		})
	})
}

// rss returns the memory of this process in MB.
func rss(t testing.TB) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	var kb float64
	if _, err := fmt.Sscan(after, &kb); err != nil {
		t.Fatal(err)
	}
	return kb / 1024
}
