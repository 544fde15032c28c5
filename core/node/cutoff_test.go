package node

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// newCutOff lets a node probe two peers, which its uplinks and its device reach, and whose addresses then fall silent.
func newCutOff(t *testing.T, silent ...string) *prober {
	p := newProber(t, vxlanConfig, vxlanPeer("10.5.1.0-24", 11), vxlanPeer("10.5.2.0-24", 12))
	p.n.opts.ProbeUnreadyAfter = 30 * time.Second
	p.pass(2 * time.Minute)
	p.wantReady()
	p.silence(silent...)
	return p
}

func (p *prober) silence(addrs ...string) {
	for _, a := range addrs {
		p.dead[netip.MustParseAddr(a)] = true
	}
}

const (
	overlay1, overlay2 = "10.5.1.0", "10.5.2.0"
	uplink1, uplink2   = "192.168.64.11", "192.168.64.12"
)

// TestSilenceOfAllPeers has all peers fall silent for a while. The reason says what the node has tried.
func TestSilenceOfAllPeers(t *testing.T) {
	p := newCutOff(t, overlay1, overlay2, uplink1, uplink2)
	fell := p.now
	for p.status().Ready {
		if p.now.Sub(fell) > 3*time.Minute {
			t.Fatalf("ready after %s without an answer", p.now.Sub(fell))
		}
		p.pass(time.Second)
	}
	if p.now.Sub(fell) < 30*time.Second {
		t.Errorf("not ready after %s of silence", p.now.Sub(fell))
	}
	reasons := strings.Join(p.status().Reasons, "; ")
	for _, want := range []string{"no peer answers probes: 2 are silent for 30s", "ICMP, and TCP to port 9", "10.5.1.0/24",
		"its uplink 192.168.64.11 does not answer"} {
		if !strings.Contains(reasons, want) {
			t.Errorf("%q lacks %q", reasons, want)
		}
	}
	if p.count("no-peer-answers") != 1 {
		t.Error(p.log())
	}
	delete(p.dead, netip.MustParseAddr(overlay2))
	p.pass(30 * time.Second)
	p.wantReady()
	if p.count("some-peer-answers") != 1 {
		t.Error(p.log())
	}
}

// TestSilenceThatProvesNothing has silent peers beside which a node stays ready.
func TestSilenceThatProvesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		silent []string
		after  time.Duration
		change func(*prober)
	}{
		"one of two":   {[]string{overlay1, uplink1}, 30 * time.Second, func(*prober) {}},
		"for a while":  {[]string{overlay1, uplink1, overlay2, uplink2}, time.Hour, func(*prober) {}},
		"switched off": {[]string{overlay1, uplink1, overlay2, uplink2}, 0, func(*prober) {}},
		"no longer probed": {[]string{overlay1, uplink1, overlay2, uplink2}, 30 * time.Second, func(p *prober) {
			p.unable = "no socket"
		}},
		"icmp alone": {nil, 30 * time.Second, func(p *prober) {
			p.noICMP = map[netip.Addr]bool{netip.MustParseAddr(overlay1): true, netip.MustParseAddr(overlay2): true}
		}},
		"one has gone": {[]string{overlay1, uplink1, overlay2, uplink2}, 30 * time.Second, func(p *prober) {
			p.remove(mustKey("10.5.2.0-24"))
			p.tell()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newCutOff(t, c.silent...)
			p.n.opts.ProbeUnreadyAfter = c.after
			c.change(p)
			for range 300 {
				p.pass(time.Second)
				p.wantReady()
			}
		})
	}
}

// TestPeersThatNeverAnswered begins with silent peers. They are a reason only if their hosts answer.
func TestPeersThatNeverAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		silent []string
		ready  bool
	}{
		"their hosts do":     {[]string{overlay1, overlay2}, false},
		"their hosts do not": {[]string{overlay1, overlay2, uplink1, uplink2}, true},
		"one host does":      {[]string{overlay1, overlay2, uplink1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProber(t, vxlanConfig, vxlanPeer("10.5.1.0-24", 11), vxlanPeer("10.5.2.0-24", 12))
			p.n.opts.ProbeUnreadyAfter = 30 * time.Second
			p.silence(c.silent...)
			p.pass(5 * time.Minute)
			if s := p.status(); s.Ready != c.ready {
				t.Errorf("ready=%t: %q", s.Ready, s.Reasons)
			}
		})
	}
}

// TestNewPeersBesideSilentOnes lets peers join a cluster that a node does not reach: it stays as it is until it has
// examined them.
func TestNewPeersBesideSilentOnes(t *testing.T) {
	p := newCutOff(t, overlay1, overlay2, uplink1, uplink2, "10.5.3.0", "192.168.64.13")
	p.pass(3 * time.Minute)
	for i := range 200 {
		if i == 20 {
			p.put(vxlanPeer("10.5.3.0-24", 13))
			p.tell()
		}
		p.pass(time.Second)
		if p.status().Ready {
			t.Fatal("ready although no peer has answered")
		}
	}
}
