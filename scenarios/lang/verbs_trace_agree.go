package lang

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/driver"
)

// tracePause is the time between two comparisons.
const tracePause = time.Second

// seenByTrace lists the reasons for which a host drops packets that trace finds in its
// kernel, before it sends them.
var seenByTrace = []string{
	"no_route", "blackhole", "neigh_missing", "fdb_missing", "bad_source", "xfrm_blocked", "wg_no_peer",
	"fw_drop",
}

// ofDaemon lists the reasons for which a daemon drops packets that it carries itself. Trace cannot
// ask for its table of peers, and notes a peer that may be missing there.
var ofDaemon = []string{"no_route", "wg_no_peer"}

// traceAgrees performs "trace agree [within=10s]": for each pair of pods, a packet whose ways
// there and back trace follows to the end arrives, unless the network between the hosts loses
// it, and one that a host drops ends where trace says so. Trace reads no router between the hosts: it
// may only say that a packet leaves for one that drops it.
func (s *Session) traceAgrees(a *args) error {
	within := 10 * time.Second
	a.duration("within", &within)
	if err := a.done(); err != nil {
		return err
	}
	for ; ; within -= tracePause {
		err := s.compareTraces()
		if err == nil || within < tracePause {
			return err
		}
		s.letPass(tracePause)
	}
}

// compareTraces compares the traces between all pods with packets.
func (s *Session) compareTraces() error {
	without, err := s.withoutLease()
	if err != nil {
		return err
	}
	for _, from := range s.running() {
		for _, to := range s.running() {
			for _, f := range s.families {
				pods := s.podIn(from, f).IsValid() && s.podIn(to, f).IsValid()
				if from == to || without[from] || without[to] || !pods || s.podTwice(from, f) || s.podTwice(to, f) {
					continue
				}
				if s.blocksOneWay(from, to) {
					continue
				}
				if err := s.compareTrace(from, to, f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// podTwice reports whether another host has the address of a node's pod, or holds a lease with it: two hosts with one
// public address may hold one lease, and a packet reaches either host.
func (s *Session) podTwice(name string, f cidr.Family) bool {
	own := s.podIn(name, f)
	return slices.ContainsFunc(s.top.NodeNames(), func(other string) bool {
		if other == name {
			return false
		}
		host, err := nodeWith[TraceHost](s, other)
		holder, err2 := nodeWith[LeaseHolder](s, other)
		return err == nil && host.PodAddr(f) == own || err2 == nil && holder.Holds().Of(f).Contains(own)
	})
}

// blocksOneWay reports whether a host's firewall blocks packets while those between two nodes come in another way than
// they go out: with direct routing, a node behind a router sends to its segment directly, and gets the answers by the
// tunnel. Trace on a host supposes that a peer sends as the host itself does.
func (s *Session) blocksOneWay(from, to string) bool {
	behind := slices.Contains(s.top.NAT, from) || slices.Contains(s.top.NAT, to)
	return behind && backendOf(s.config)["DirectRouting"] == true && s.hasFault("", "block")
}

// hasFault reports whether a lasting fault with a name is in force, at a host or at any.
func (s *Session) hasFault(host, name string) bool {
	return slices.ContainsFunc(sortedKeys(s.undo), func(fault string) bool {
		words := strings.Fields(fault)
		return len(words) > 1 && words[1] == name && (host == "" || words[0] == host)
	})
}

// addressTwice reports whether another host has an underlay address of a node: trace says that a packet leaves for the
// address, and not which host gets it.
func (s *Session) addressTwice(name string) bool {
	at := s.nodeIndex(name)
	for i := range s.top.Nodes {
		same := func(f cidr.Family) bool { return s.address(i, f) == s.address(at, f) }
		if i != at && slices.ContainsFunc(s.families, same) {
			return true
		}
	}
	return false
}

// seenByTrace reports whether trace finds the reason of a lost packet in a host's kernel. Only the
// daemon knows the peers of a WireGuard device in userspace, so trace reads the records instead.
func (s *Session) seenByTrace(r PingResult) bool {
	inUserspace := func(config string) bool { return backendOf(config)["Implementation"] == "userspace" }
	userspace := slices.Contains(s.top.NoWireGuard, r.Where) || inUserspace(s.config) ||
		slices.ContainsFunc(s.formerly, inUserspace)
	return slices.Contains(seenByTrace, r.Drop) && !(userspace && r.Drop == "wg_no_peer")
}

// compareTrace compares the traces between two pods, there and back, with a packet.
func (s *Session) compareTrace(from, to string, f cidr.Family) error {
	there, err := s.tracePair(from, to, f, traceOptions{size: 84, asDaemons: true})
	back, err2 := s.tracePair(to, from, f, traceOptions{size: 84, asDaemons: true})
	if err := errors.Join(err, err2); err != nil {
		if errors.Is(err, driver.ErrBusy) {
			return nil // a fault keeps all programs from reading that kernel
		}
		return err
	}
	r, err := s.world.Ping(from+".pod", to+".pod", PingOptions{Family: f})
	ends := strings.Contains(there+back, " ends: ")
	arrivesThere, arrivesBack := strings.HasSuffix(there, to+" arrives"), strings.HasSuffix(back, from+" arrives")
	arrives := arrivesThere && arrivesBack
	eitherHost := !arrivesThere && s.addressTwice(to) || !arrivesBack && s.addressTwice(from)
	dropper := slices.Contains(s.top.NodeNames(), r.Where)
	noted := strings.Contains(there+", "+back, r.Where+" leaves"+pending) && slices.Contains(ofDaemon, r.Drop) ||
		strings.Contains(there+", "+back, r.Where+" arrives"+unsure)
	if b, _, err := s.backend(); err == nil && b.Extent().Provider.Name != "" {
		arrives = false // trace does not read the provider's tables
	}
	switch {
	case err != nil:
		return err
	case r.OK && ends:
		return fmt.Errorf("a packet from %s to %s arrives, and so does the answer; trace says: %s; back: %s", from, to,
			there, back)
	case !r.OK && !ends && !noted && !eitherHost && s.seenByTrace(r) && (dropper || arrives):
		return fmt.Errorf("a packet from %s to %s ends (%s at %s); trace says: %s; back: %s", from, to, r.Drop, r.Where,
			there, back)
	}
	return nil
}
