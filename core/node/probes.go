package node

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/probe"
)

// watchEvery is the shortest time between two updates of the list of peers to probe.
const watchEvery = time.Second

// A cluster that falls apart changes many findings at once. The log then names the
// first ones, and flannelctl peers all of them.
const (
	findingsLogged = 10
	findingsPeriod = time.Minute
)

// probeState holds whether the peers answer. The checksums of a device and readiness depend on it, see
// followChecksums and followCutOff, and no other decision of the node.
type probeState struct {
	prober  *probe.Prober // nil: probing is off
	watched watched
	due     time.Time // no update of the list of peers before
	waits   bool      // the list is outdated
	logged  int       // findings since loggedFrom
	from    time.Time // the beginning of the period in which they were logged
	silence silence
	cutOff  string // why the node is not ready although the host is as desired: no peer answers; empty: it may be
}

// watched holds the inputs of the list of peers to probe.
type watched struct {
	want *dataplane.State
	snap *lease.Snapshot
	self lease.Key
	mtu  int
}

func newProbeState(o Options) probeState {
	if o.ProbeInterval <= 0 {
		return probeState{}
	}
	return probeState{prober: probe.New(o.ProbeInterval, o.Rand)}
}

// wake returns the time of the next probe; zero: none.
func (s *probeState) wake() time.Time {
	if s.prober == nil {
		return time.Time{}
	}
	at := s.prober.Wake()
	if s.waits && (at.IsZero() || s.due.Before(at)) {
		return s.due
	}
	return at
}

// result returns what is known about a peer's subnet, or nil.
func (s *probeState) result(subnet netip.Prefix) *probe.Result {
	if s.prober == nil {
		return nil
	}
	r, known := s.prober.Result(subnet)
	if !known {
		return nil
	}
	return &r
}

func (s *probeState) summary() probe.Summary {
	if s.prober == nil {
		return probe.Summary{}
	}
	return s.prober.Summary()
}

// followProbes asks for the probes that are due.
func (n *Node) followProbes() {
	s := &n.probes
	if s.prober == nil {
		return
	}
	n.watchPeers()
	for {
		r, due := s.prober.Due(n.now)
		if !due {
			return
		}
		n.effects.Probes = append(n.effects.Probes, r)
	}
}

// watchPeers makes the prober follow the peers that the host is programmed for.
func (n *Node) watchPeers() {
	s, want := &n.probes, &n.host.want
	begun := s.watched != watched{}
	if want.state == nil || !begun && !n.hostLane().clean {
		return
	}
	now := watched{want: want.state, snap: want.snap, self: want.self.Key, mtu: n.mtu()}
	s.waits = now != s.watched
	if !s.waits || n.now.Before(s.due) {
		return
	}
	s.waits, s.watched = false, now
	s.due = n.now.Add(watchEvery)
	s.prober.Watch(n.now, n.targets(now.mtu))
	n.followCutOff()
}

// targets returns the peers that the host is programmed for, in each family. Where the
// backend has a device, the device of a peer has the base of the peer's subnet as its
// address, with upstream too (interop 6.0). During a change of the backend a peer may
// not have that device, unless this node sends to it by its own. Without a device the
// probes leave from the bridge of this node's pods, if it has one, since the peer's way
// back to the pods may be wrong where that to the uplink is right.
func (n *Node) targets(mtu int) []probe.Target {
	refused := map[lease.Key]bool{}
	for _, problem := range n.host.problems {
		refused[problem.Key] = true
	}
	want := &n.host.want
	changing := len(n.transition.Set().Previous()) > 0
	targets := make([]probe.Target, 0, len(want.peers))
	for _, f := range cidr.Families {
		own := want.self.Key.Of(f)
		if !own.IsValid() {
			continue
		}
		device := hasDeviceAddress(want.state, f, own)
		from := own.Addr() // a foreign address on the device is none that peers accept
		if !device {
			from = from.Next()
		}
		needed := device || want.state.Policies.Len() > 0 // IPsec protects packets between subnets only
		for _, p := range want.peers {
			subnet := p.Key.Of(f)
			if !subnet.IsValid() || refused[p.Key] {
				continue
			}
			t := probe.Target{Subnet: subnet, Addr: subnet.Addr(), From: from, FromOptional: !needed, MTU: mtu}
			t.Bridge = !device || changing && !leavesByDevice(want.state, f, own, subnet)
			t.Uplink = p.Attrs.IP(f)
			if t.Bridge {
				t.Addr = subnet.Addr().Next()
			}
			targets = append(targets, t)
		}
	}
	return targets
}

// hasDeviceAddress reports whether a device of flannel gets the base of the node's
// subnet as its address.
func hasDeviceAddress(want *dataplane.State, f cidr.Family, own netip.Prefix) bool {
	for a := range want.Addrs {
		if a.Prefix == netip.PrefixFrom(own.Addr(), f.Bits()) {
			return true
		}
	}
	return false
}

// leavesByDevice reports whether packets to a peer's subnet leave by a device of flannel
// that has the base of the node's subnet as its address.
func leavesByDevice(want *dataplane.State, f cidr.Family, own, subnet netip.Prefix) bool {
	route, ok := want.Routes.Get(dataplane.RouteKey{Dst: subnet})
	if !ok {
		return false
	}
	_, has := want.Addrs[dataplane.Addr{Link: route.Link, Prefix: netip.PrefixFrom(own.Addr(), f.Bits())}]
	return has
}

// probed records the answers of peers.
func (n *Node) probed(p Probed) {
	s := &n.probes
	if s.prober == nil {
		return
	}
	s.prober.Heard(p.Heard, p.Listens)
	for _, a := range p.Answers {
		change, changed := s.prober.Answered(n.now, a)
		if changed {
			n.logFinding(change)
		}
	}
	unable := ""
	if text := s.prober.Unable(); text != "" {
		unable = "no peer can be probed: " + text
	}
	n.once(Warning, "probe-unable", unable)
	n.followCutOff()
	n.followSilence()
	n.followChecksums()
}

// logFinding logs a changed finding about a peer, but not that a new peer answers
// everything.
func (n *Node) logFinding(c probe.Change) {
	s := &n.probes
	well := c.Result.Finding == probe.Well
	if well && c.Before == probe.Unknown {
		return
	}
	if n.now.Sub(s.from) >= findingsPeriod {
		s.from, s.logged = n.now, 0
	}
	s.logged++
	text := fmt.Sprintf("peer %s %s", c.Subnet, c.Result.Text())
	if s.logged == findingsLogged {
		text += "; no further line in this minute: flannelctl peers shows all"
	}
	switch {
	case s.logged > findingsLogged:
		return
	case well:
		n.event(Info, "probe-well", text)
	default:
		n.event(Warning, "probe-fault", text)
	}
}
