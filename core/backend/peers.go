package backend

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// Peer is one family of a peer's lease, checked and fit to be programmed.
type Peer struct {
	Family cidr.Family
	Key    lease.Key
	Subnet netip.Prefix
	IP     netip.Addr // public
	Lease  *lease.Lease
}

// AnyType makes [Peers] accept records of every type. Backends that publish no
// type use it (interop 6.0).
const AnyType = ""

// Peers returns the peers of one family that a backend can serve, oldest record
// first, and a problem for each of the others. It skips records of another
// backend type silently (interop 6.0).
//
// Peer data is untrusted. A subnet outside the network, or one that overlaps
// ours or an older peer's, would attract foreign packets, so it is refused. Two
// records of one host may name the same subnet: a reservation that the host cannot
// use, and its lease for the half that fits. They count as one peer.
func Peers(env Env, self Self, backendType string, f cidr.Family, peers []*lease.Lease) ([]Peer, []Problem) {
	rng := env.Config.Of(f)
	if !rng.Enabled() {
		return nil, nil
	}
	var problems []Problem
	out := make([]Peer, 0, len(peers))
	for _, l := range peers {
		subnet := l.Key.Of(f)
		if backendType != AnyType && l.Attrs.BackendType != backendType || !subnet.IsValid() {
			continue
		}
		p := Peer{Family: f, Key: l.Key, Subnet: subnet, IP: l.Attrs.IP(f), Lease: l}
		if err := p.check(env, self, rng); err != nil {
			problems = append(problems, Problem{Key: l.Key, Err: err})
			continue
		}
		out = append(out, p)
	}
	out, overlapping := withoutOverlaps(out)
	return out, append(problems, overlapping...)
}

func (p Peer) check(env Env, self Self, rng config.Range) error {
	own, network := self.Key.Of(p.Family), rng.Network
	switch {
	case !cidr.Contains(network, p.Subnet):
		return fmt.Errorf("subnet %s is outside the network %s", p.Subnet, network)
	case own.IsValid() && own.Overlaps(p.Subnet):
		return fmt.Errorf("subnet %s overlaps our own %s", p.Subnet, own)
	case !p.IP.IsValid():
		return fmt.Errorf("record has no public %s address", p.Family)
	case !p.IP.IsGlobalUnicast() || p.IP.Is4In6():
		return fmt.Errorf("public address %s is not a unicast address", p.IP)
	case p.IP == env.Uplink.Public(p.Family) || p.IP == env.Uplink.Addr(p.Family):
		return fmt.Errorf("public address %s is our own", p.IP)
	case rng.Holds(p.IP): // its tunnel would lead into itself
		return fmt.Errorf("public address %s is inside the network %s: the node took a device of pods or of flannel for "+
			"its uplink, and must publish another address", p.IP, network)
	}
	return nil
}

// withoutOverlaps drops each peer whose subnet overlaps that of an older record
// (interop E7: two dual-stack keys may share one half).
func withoutOverlaps(peers []Peer) ([]Peer, []Problem) {
	slices.SortFunc(peers, func(a, b Peer) int {
		return cmp.Or(a.Subnet.Addr().Compare(b.Subnet.Addr()), a.Subnet.Bits()-b.Subnet.Bits(),
			cmp.Compare(a.Lease.CreateRevision, b.Lease.CreateRevision))
	})
	var problems []Problem
	out := peers[:0]
	for _, p := range peers {
		// Sorted by base, wider first: only the last one kept can contain p.
		if n := len(out); n > 0 && out[n-1].Subnet.Overlaps(p.Subnet) {
			last := out[n-1]
			if last.Subnet == p.Subnet && last.IP == p.IP {
				out[n-1] = merge(last, p)
				continue
			}
			if last.Lease.CreateRevision <= p.Lease.CreateRevision {
				problems = append(problems, overlap(p, last))
				continue
			}
			problems = append(problems, overlap(last, p))
			out = out[:n-1]
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Peer) int {
		return cmp.Or(cmp.Compare(a.Lease.CreateRevision, b.Lease.CreateRevision), a.Subnet.Addr().Compare(b.Subnet.Addr()))
	})
	return out, problems
}

// merge returns two peers of one host and subnet as one: as old as the older record,
// with the attributes that were written last.
func merge(older, younger Peer) Peer {
	if older.Lease.ModRevision > younger.Lease.ModRevision {
		return older
	}
	merged := *younger.Lease
	merged.CreateRevision = older.Lease.CreateRevision
	younger.Lease = &merged
	return younger
}

func overlap(younger, older Peer) Problem {
	return Problem{Key: younger.Key,
		Err: fmt.Errorf("subnet %s overlaps %s of an older record", younger.Subnet, older.Key)}
}
