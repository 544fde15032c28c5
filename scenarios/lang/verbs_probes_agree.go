package lang

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
)

// fromTheStore lists the lasting faults that keep a node from learning new records.
var fromTheStore = []string{"cut", "denied", "token"}

// examination is longer than the probes take to examine a peer that does not answer.
const examination = 30 * time.Second

// sameForPods lists the lasting faults of a node that affect its host's packets and those of
// its pods alike. Any other fault excuses the pairs of its nodes.
var sameForPods = []string{"isolate", "part", "cut", "denied", "clock", "full", "hints", "token"}

// probesAgree performs "probes agree [within=2m]": within two intervals, the probes' findings
// must agree with the fate of packets between pods. An unreachable peer gets no pod's packets,
// and one that answers gets them.
func (s *Session) probesAgree(a *args) error {
	within := 2*s.top.Probes + examination
	a.duration("within", &within)
	if err := a.done(); err != nil {
		return err
	}
	if s.top.Probes == 0 {
		return errors.New("the topology has no probes=")
	}
	for _, name := range s.running() {
		n, err := s.world.Node(name)
		if err != nil {
			return err
		}
		_ = s.syncPods(n) // without a valid subnet file, the pod stays as it is
	}
	pause := min(max(s.top.Probes/2, time.Second), 5*time.Second)
	for ; ; within -= pause {
		err := s.compareProbes()
		if err == nil || within < pause {
			return err
		}
		s.letPass(pause)
	}
}

// compareProbes compares the present findings of all running daemons with packets.
func (s *Session) compareProbes() error {
	var compare []func() error
	without, err := s.withoutLease()
	if err != nil {
		return err
	}
	peers, err := s.peersOfAll()
	if err != nil {
		return err
	}
	for _, from := range s.running() {
		for _, p := range peers[from] {
			to := s.ownerOf(p)
			if !slices.Contains(s.running(), to) || s.excused(from, to) || without[from] || without[to] {
				continue
			}
			if s.unaware(peers[to], to, from) {
				continue
			}
			for _, way := range p.Ways {
				compare = append(compare, func() error { return s.compareWay(from, to, way) })
			}
		}
	}
	return s.together(compare)
}

// peersOfAll returns the peers that each running daemon knows.
func (s *Session) peersOfAll() (map[string][]node.Peer, error) {
	all := map[string][]node.Peer{}
	for _, name := range s.running() {
		observer, err := nodeWith[PeerObserver](s, name)
		if err != nil {
			return nil, err
		}
		peers, err := observer.Peers()
		if errors.Is(err, ErrNoDaemon) {
			continue // the daemon has exited by itself
		}
		if err != nil {
			return nil, err
		}
		all[name] = peers
	}
	return all, nil
}

// ownerOf returns the node that a peer is.
func (s *Session) ownerOf(p node.Peer) string {
	return s.owner(lease.Lease{Key: p.Subnet, Attrs: lease.Attrs{PublicIP: p.PublicIP, PublicIPv6: p.PublicIP6}})
}

// byRouter reports whether the tables of a cloud provider lead packets between pods.
func (s *Session) byRouter() bool {
	spec, _ := all.Find(s.network.Backend.Type)
	return spec.IgnoresPeers
}

// unaware reports whether a fault keeps a node from learning another's subnet. Its uplink
// answers the other's probes, and it has no way back to the other's pods.
func (s *Session) unaware(peers []node.Peer, name, of string) bool {
	other, err := nodeWith[LeaseHolder](s, of)
	if err != nil || slices.ContainsFunc(peers, func(p node.Peer) bool { return p.Subnet == other.Holds() }) {
		return false
	}
	for what := range s.undo {
		words := strings.Fields(what)
		apart := slices.ContainsFunc(words, func(w string) bool { return slices.Contains(fromTheStore, w) })
		if what == storeStopped || apart && slices.Contains(words, name) {
			return true
		}
	}
	return false
}

// together performs all tasks, and joins their errors. In real time it performs them in
// parallel: one after the other, lost packets would take so long that the findings are
// outdated before the last comparison.
func (s *Session) together(tasks []func() error) error {
	errs := make([]error, len(tasks))
	var all sync.WaitGroup
	_, virtual := s.world.(VirtualClock)
	for i, do := range tasks {
		perform := func() { errs[i] = do() }
		if virtual {
			perform()
		} else {
			all.Go(perform)
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// withoutLease returns the running nodes whose lease has run out, or whose record is gone. Their
// peers have deleted the routes to their pods, but their uplinks still answer.
func (s *Session) withoutLease() (map[string]bool, error) {
	records, err := s.world.Store().Records()
	if err != nil {
		return nil, err
	}
	recorded := map[string]bool{}
	for _, r := range s.owned(records) {
		recorded[r.owner] = r.valid || recorded[r.owner]
	}
	without := map[string]bool{}
	for _, name := range s.running() {
		n, err := s.world.Node(name)
		if err != nil {
			return nil, err
		}
		st, err := n.Status()
		without[name] = !recorded[name] || err == nil && st.Fenced
	}
	return without, nil
}

// excused reports whether a fault in force may let a pair's probes and pods meet different
// fates. With a datastore that answers badly, leases come and go all the time. What is sent to
// an address that two machines have reaches one or the other.
func (s *Session) excused(from, to string) bool {
	if s.doubled[from] || s.doubled[to] {
		return true
	}
	for what := range s.undo {
		words := strings.Fields(what)
		if words[0] == "store" && what != storeStopped {
			return true
		}
		same := slices.ContainsFunc(words, func(w string) bool {
			// The router carries pods' packets past a part, and probes' answers take the direct path.
			return slices.Contains(sameForPods, w) && !(w == "part" && s.byRouter())
		})
		touches := slices.Contains(words, from) || slices.Contains(words, to) || strings.HasPrefix(words[0], "segment")
		if touches && !same {
			return true
		}
	}
	return false
}

// compareWay compares a finding with a packet between two pods of these nodes.
func (s *Session) compareWay(from, to string, way node.Way) error {
	family := cidr.FamilyOf(way.Subnet.Addr())
	if way.Probe == nil || !s.podsIn(from, to, way, family) {
		return nil
	}
	if way.Type == "router" && !way.Subnet.Contains(way.Probe.Address) {
		return nil // the uplink answers for a bridge that never did, and says nothing about the router's tables
	}
	silent := way.Probe.Finding == probe.Unreachable
	switch way.Probe.Finding {
	case probe.Unknown:
		return fmt.Errorf("%s does not know yet whether %s answers at %s", from, to, way.Probe.Address)
	case probe.ICMPLost:
		return nil // nothing is said about pings
	}
	r, err := s.world.Ping(from+".pod", to+".pod", PingOptions{Family: family})
	switch {
	case err != nil:
		return err
	case r.OK && silent:
		return fmt.Errorf("probes of %s find %s unreachable at %s, and a packet between their pods arrives",
			from, to, way.Probe.Address)
	case !r.OK && !silent:
		return fmt.Errorf("probes of %s find %s %s at %s, and a packet between their pods is lost: %s", from, to,
			way.Probe.Finding, way.Probe.Address, r.Drop)
	}
	return nil
}

// podsIn reports whether both nodes have pods in the subnets that a way serves. A node whose
// subnet has changed may not have one yet, or only one with an address of the former subnet.
func (s *Session) podsIn(from, to string, way node.Way, f cidr.Family) bool {
	return s.podIn(from, f).IsValid() && way.Subnet.Contains(s.podIn(to, f))
}

// podIn returns the address of a node's pod, if the node holds the subnet of that address.
func (s *Session) podIn(name string, f cidr.Family) netip.Addr {
	host, err := nodeWith[TraceHost](s, name)
	holder, err2 := nodeWith[LeaseHolder](s, name)
	if err != nil || err2 != nil || !holder.Holds().Of(f).Contains(host.PodAddr(f)) {
		return netip.Addr{}
	}
	return host.PodAddr(f)
}
