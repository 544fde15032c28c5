package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/probe"
)

func probing(o *Options) { o.ProbeInterval = time.Minute }

// prober answers a node's probes in a test world.
type prober struct {
	*world
	dead  map[netip.Addr]bool // addresses without an answer
	small int                 // larger packets are lost; 0: none is
	noTCP map[netip.Addr]bool // addresses that answer no TCP
	// noICMP holds the addresses that answer TCP alone.
	noICMP map[netip.Addr]bool
	// badCard makes the host's network card compute wrong checksums of TCP.
	badCard bool
	sent    map[netip.Addr]int
	from    map[netip.Addr]netip.Addr // the source of the last packet
	unable  string                    // why this host can send no probe; empty: it can
}

func newProber(t testing.TB, conf string, peers ...lease.Lease) *prober {
	p := &prober{world: newWorld(t, conf, probing), dead: map[netip.Addr]bool{}, sent: map[netip.Addr]int{},
		from: map[netip.Addr]netip.Addr{}}
	for _, l := range peers {
		p.put(l)
	}
	p.tell()
	p.pass(time.Second)
	p.wantReady()
	return p
}

// pass lets time go by, and answers probes at once.
func (p *prober) pass(d time.Duration) {
	p.t.Helper()
	end := p.now.Add(d)
	for range 100_000 {
		at := p.n.wake()
		if at.IsZero() || at.After(end) {
			p.now = end
			return
		}
		p.now = at
		p.n.Step(p.now, Input{})
		r := p.n.Ready()
		p.events = append(p.events, r.Events...)
		in, _ := p.perform(r)
		in.Probed = p.answer(r.Probes)
		p.run(in)
	}
	p.t.Fatal("the node wakes too often")
}

func (p *prober) answer(requests []probe.Request) *Probed {
	if len(requests) == 0 {
		return nil
	}
	probed := &Probed{Listens: true}
	for _, r := range requests {
		p.sent[r.To]++
		p.from[r.To] = r.From
		spoilt := p.badCard && p.feature() != dataplane.FeatureOff && r.Kind == probe.Connect
		lost := spoilt || p.dead[r.To] || p.small > 0 && r.Size > p.small || p.noTCP[r.To] && r.Kind == probe.Connect ||
			p.noICMP[r.To] && r.Kind != probe.Connect
		probed.Answers = append(probed.Answers, probe.Answer{ID: r.ID, OK: !lost && p.unable == "",
			RTT: time.Millisecond, Unable: p.unable})
	}
	return probed
}

// addresses returns what was probed, in order.
func (p *prober) addresses() string {
	return fmt.Sprint(slices.SortedFunc(maps.Keys(p.sent), netip.Addr.Compare))
}

func TestProbesGoToTheOverlay(t *testing.T) {
	p := newProber(t, vxlanConfig, vxlanPeer("10.5.1.0-24", 11), vxlanPeer("10.5.2.0-24", 12))
	p.pass(2 * time.Minute)
	if got := p.addresses(); got != "[10.5.1.0 10.5.2.0]" {
		t.Errorf("probed %s", got)
	}
	for _, peer := range p.n.Peers() {
		r := peer.Ways[0].Probe
		if r == nil || r.Finding != probe.Well || r.MTU != 1450 || r.Passes != 1450 {
			t.Errorf("%s: %+v", peer.Subnet, r)
		}
	}
	if s := p.status().Probes; s.By[probe.Well] != 2 || !s.Listens || s.Sent["echo"] < 2 || p.count("probe-well") != 0 {
		t.Errorf("%+v\n%s", s, p.log())
	}
}

// TestProbesGoToTheBridge has a backend without a device: the bridge of the peer's pods
// answers, or its uplink as long as it has no pods.
func TestProbesGoToTheBridge(t *testing.T) {
	hostgw := lease.Lease{Key: mustKey("10.5.1.0-24"), ID: 1, Attrs: lease.Attrs{
		PublicIP: netip.MustParseAddr("192.168.64.11"), BackendType: "host-gw", BackendData: json.RawMessage("null"),
	}}
	p := newProber(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`, hostgw)
	p.dead[netip.MustParseAddr("10.5.1.1")] = true
	p.pass(2 * time.Minute)
	if got := p.addresses(); got != "[10.5.1.1 192.168.64.11]" {
		t.Errorf("probed %s", got)
	}
	if from := p.from[netip.MustParseAddr("10.5.1.1")]; from.IsValid() {
		t.Errorf("the last probe of a bridge that does not answer leaves from %s, not from the host's own address", from)
	}
	if r := p.n.Peers()[0].Ways[0].Probe; r.Finding != probe.Well || r.Address != hostgw.Attrs.PublicIP {
		t.Errorf("%+v", r)
	}
}

// TestUnreachablePeerIsLogged lets a peer fall silent and come back. The node stays ready.
func TestUnreachablePeerIsLogged(t *testing.T) {
	p := newProber(t, vxlanConfig, vxlanPeer("10.5.1.0-24", 11), vxlanPeer("10.5.2.0-24", 12))
	p.pass(2 * time.Minute)
	p.dead[netip.MustParseAddr("10.5.1.0")] = true
	p.pass(2*time.Minute - 10*time.Second) // so that the recovery does not come in the middle of an examination
	s := p.status()
	if !s.Ready || len(s.Problems) != 0 || s.Probes.By[probe.Unreachable] != 1 || len(s.Probes.Faults) != 1 {
		t.Errorf("%+v", s)
	}
	if !strings.Contains(p.log(), "probe-fault: peer 10.5.1.0/24 does not answer at 10.5.1.0, and its uplink does") {
		t.Error(p.log())
	}
	p.dead = map[netip.Addr]bool{}
	p.pass(2 * time.Minute)
	if p.count("probe-fault") != 1 || p.count("probe-well") != 1 || len(p.status().Probes.Faults) != 0 {
		t.Error(p.log())
	}
}

// TestManyFaultsAreLoggedBriefly cuts a node off from all of its peers.
func TestManyFaultsAreLoggedBriefly(t *testing.T) {
	var peers []lease.Lease
	for i := range byte(30) {
		peers = append(peers, vxlanPeer(fmt.Sprintf("10.5.%d.0-24", i+1), i+10))
	}
	p := newProber(t, vxlanConfig, peers...)
	for i := range byte(30) {
		p.dead[netip.AddrFrom4([4]byte{10, 5, i + 1, 0})] = true
	}
	p.pass(2 * time.Minute)
	if got := p.count("probe-fault"); got < findingsLogged || got > 3*findingsLogged {
		t.Errorf("%d lines:\n%s", got, p.log())
	}
	if s := p.status().Probes; s.By[probe.Unreachable] != 30 || len(s.Faults) != 10 {
		t.Errorf("%+v", s)
	}
}

func TestProbesFollowTheCluster(t *testing.T) {
	p := newProber(t, vxlanConfig, vxlanPeer("10.5.1.0-24", 11))
	p.pass(2 * time.Minute)
	p.remove(mustKey("10.5.1.0-24"))
	p.put(vxlanPeer("10.5.2.0-24", 12))
	p.tell()
	p.pass(2 * time.Second) // longer than the pause between two updates of the list
	clear(p.sent)
	p.pass(2 * time.Minute)
	if got := p.addresses(); got != "[10.5.2.0]" {
		t.Errorf("probed %s", got)
	}
	if s := p.status().Probes; len(s.By) != 1 || s.By[probe.Well] != 1 {
		t.Errorf("%+v", s)
	}
}

// TestNoProbesByDefault leaves the random numbers of a node without probes alone, too.
func TestNoProbesByDefault(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.put(vxlanPeer("10.5.1.0-24", 11))
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if w.n.probes.prober != nil || w.n.Peers()[0].Ways[0].Probe != nil || w.status().Probes.Interval != 0 {
		t.Errorf("%+v", w.status().Probes)
	}
}

// Probes through a device leave from flannel's own address on it. The kernel may choose a
// foreign one, from which peers with WireGuard accept nothing.
func TestSourceOfProbes(t *testing.T) {
	p := newProber(t, vxlanConfig, vxlanPeer("10.5.2.0-24", 2))
	p.pass(2 * time.Minute)
	to, own := netip.MustParseAddr("10.5.2.0"), p.own().Key.V4.Addr()
	if got := p.from[to]; got != own {
		t.Errorf("probes of %s leave from %s, want %s", to, got, own)
	}
}

// TestProbesDuringAChange has a node that keeps its vxlan device during a change to
// host-gw. It probes a peer's device only if it sends to the peer by its own: the other
// peer may never have had one.
func TestProbesDuringAChange(t *testing.T) {
	hostgw := lease.Lease{Key: mustKey("10.5.2.0-24"), ID: 2, Attrs: lease.Attrs{
		PublicIP: netip.MustParseAddr("192.168.64.12"), BackendType: "host-gw", BackendData: json.RawMessage("null"),
	}}
	p := newProber(t, vxlanConfig, vxlanPeer("10.5.1.0-24", 11))
	p.configure(`{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`)
	p.put(hostgw)
	p.tell()
	p.pass(2 * time.Minute)
	if got := p.addresses(); got != "[10.5.1.0 10.5.2.1]" {
		t.Errorf("probed %s", got)
	}
}

// TestProbesNoRefusedPeer has a peer that the node cannot serve: the log tells that already.
func TestProbesNoRefusedPeer(t *testing.T) {
	refused := vxlanPeer("10.5.2.0-24", 12)
	refused.Attrs.BackendData = json.RawMessage(`{"VNI":1,"VtepMAC":"00:00:00:00:00:00"}`)
	p := newProber(t, vxlanConfig, vxlanPeer("10.5.1.0-24", 11), refused)
	p.pass(2 * time.Minute)
	if got := p.addresses(); got != "[10.5.1.0]" || len(p.status().Problems) != 1 {
		t.Errorf("probed %s, problems %q", got, p.status().Problems)
	}
}

// TestNewPeersWaitASecond lets the list of peers change twice within a second.
func TestNewPeersWaitASecond(t *testing.T) {
	p := newProber(t, vxlanConfig)
	p.pass(time.Minute)
	known := func(subnet string) bool { return p.n.probes.result(netip.MustParsePrefix(subnet)) != nil }
	p.put(vxlanPeer("10.5.1.0-24", 11))
	p.tell()
	p.pass(200 * time.Millisecond)
	p.put(vxlanPeer("10.5.2.0-24", 12))
	p.tell()
	p.pass(200 * time.Millisecond)
	if !known("10.5.1.0/24") || known("10.5.2.0/24") {
		t.Errorf("after 400 ms: the first is known %t, the second %t", known("10.5.1.0/24"), known("10.5.2.0/24"))
	}
	p.pass(time.Second)
	if !known("10.5.2.0/24") {
		t.Error("after a second, the second is not known")
	}
}

// TestSaysWhyItCannotProbe logs the reason once, however many probes it stops.
func TestSaysWhyItCannotProbe(t *testing.T) {
	p := newProber(t, vxlanConfig, vxlanPeer("10.5.1.0-24", 11), vxlanPeer("10.5.2.0-24", 12))
	p.unable = "operation not permitted"
	p.pass(3 * time.Minute)
	want := []string{"no peer can be probed: operation not permitted"}
	if got := p.logged("probe-unable"); !slices.Equal(got, want) {
		t.Errorf("log %q, want %q", got, want)
	}
}

// TestFindingsOfAMinute logs the first ones of each minute, the last of them with a hint.
func TestFindingsOfAMinute(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	change := probe.Change{Subnet: netip.MustParsePrefix("10.5.1.0/24"), Result: probe.Result{Finding: probe.Unreachable}}
	w.n.now = w.now
	lines := func(after time.Duration, findings int) (texts []string) {
		w.n.now = w.n.now.Add(after)
		for range findings {
			w.n.logFinding(change)
		}
		for _, e := range w.n.Ready().Events {
			texts = append(texts, e.Text)
		}
		return texts
	}
	const hint = "; no further line in this minute: flannelctl peers shows all"
	first := lines(0, findingsLogged+5)
	if len(first) != findingsLogged || strings.HasSuffix(first[0], hint) ||
		!strings.HasSuffix(first[findingsLogged-1], hint) {
		t.Errorf("lines %q", first)
	}
	if more := lines(findingsPeriod-time.Second, 3); len(more) != 0 {
		t.Errorf("more in the same minute: %q", more)
	}
	if next := lines(time.Second, findingsLogged+1); len(next) != findingsLogged {
		t.Errorf("%d lines in the next minute", len(next))
	}
}
