package probe

import (
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/cidr"
)

// AllSilent describes peers none of which answers.
type AllSilent struct {
	Peers  int          // those that should answer
	First  netip.Prefix // the first of them in order
	Result Result       // of the first
	Uplink netip.Addr   // of the first
}

// AllSilent reports whether no peer answers, although two or more should, and each of these has been silent for d
// from the first lost packet to the last. It returns false if a peer has not been examined yet.
//
// A peer should answer if it has answered before, or if its uplink answers. Of other silent peers
// nothing is known: their host may drop all probes. A silent bridge beside an uplink that answers proves nothing,
// either: the peer may have been started again, and have no pods yet.
func (p *Prober) AllSilent(d time.Duration) (AllSilent, bool) {
	if p.totals.by[Unknown] > 0 {
		return AllSilent{}, false
	}
	s, lasting := p.silent(d)
	return s, lasting
}

// StillSilent reports whether no peer answers, although two or more should. Peers that have not been examined
// yet do not matter.
func (p *Prober) StillSilent() (AllSilent, bool) { return p.silent(0) }

func (p *Prober) silent(d time.Duration) (s AllSilent, lasting bool) {
	if p.totals.answered() || p.totals.unable != "" {
		return AllSilent{}, false
	}
	lasting = true
	var first *peer
	var peers [2]int // by family: a peer has a target in each
	for x := range p.totals.bad {
		if !x.shouldAnswer() {
			continue
		}
		peers[cidr.FamilyOf(x.target.Subnet.Addr())]++
		lasting = lasting && x.missed.Sub(x.since) >= d
		if first == nil || x.target.Subnet.Compare(first.target.Subnet) < 0 {
			first = x
		}
	}
	s.Peers = max(peers[cidr.V4], peers[cidr.V6])
	if s.Peers < 2 || !lasting {
		return AllSilent{}, false
	}
	s.First, s.Uplink = first.target.Subnet, first.target.Uplink
	s.Result = first.result()
	return s, true
}

// shouldAnswer reports whether the silence of an unreachable peer means that pods do not reach it.
func (x *peer) shouldAnswer() bool {
	if x.uplink && x.target.Bridge {
		return false
	}
	return x.reached || x.uplink
}

// answered reports whether at least one target has a finding other than that it is unreachable.
func (t *totals) answered() bool {
	return t.by[Well]+t.by[SizeLost]+t.by[TCPLost]+t.by[ICMPLost] > 0
}
