package invariants

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/probe"
)

// silenceBound is how long a node may call itself ready while packets between it and all of its peers are lost: an
// interval of probes of 20 s and a fifth, two examinations of 13 s each, and 12 s between them; with many peers more.
const silenceBound = 2 * time.Minute

// parted is a time in which packets between a node and all of its peers are lost. The zero value is none.
type parted struct {
	snap  *lease.Snapshot // that names the peers
	since time.Duration
}

// checkSilence is called after every event: a node that none of its peers answers is not ready for long, if two or more
// of them have answered its probes before.
func (i *Invariants) checkSilence() error {
	parting := 0
	for _, fault := range i.situation.Faults {
		if strings.Contains(fault, " part ") {
			parting++
		}
	}
	for _, name := range i.order {
		n := i.nodes[name]
		if parting < 2 || n.stands() || n.Daemon == nil || n.client == nil || !n.holds {
			n.parted = parted{}
			continue
		}
		snap := n.client.View().Snapshot
		if n.parted.snap == nil || n.parted.snap != snap {
			n.parted = i.partedFrom(n, snap)
		}
		if n.parted.snap != nil && n.claims.ready && i.elapsed()-n.parted.since > silenceBound {
			return fmt.Errorf("%s calls itself ready, though no packet has passed between it and its peers for %s",
				name, i.elapsed()-n.parted.since)
		}
	}
	return nil
}

// partedFrom returns that packets between a node and all of its peers are lost from now on, if so. The fault does not
// part nodes behind a NAT.
func (i *Invariants) partedFrom(n *Node, snap *lease.Snapshot) parted {
	if snap == nil || len(n.Public) > 0 {
		return parted{}
	}
	peers := 0
	for _, l := range snap.Leases {
		if l.Key == n.key {
			continue
		}
		peers++
		if !slices.ContainsFunc(i.order, func(other string) bool {
			o := i.nodes[other]
			return len(o.Public) == 0 && i.isParted(n.name, other) && slices.Contains(o.addresses(), l.Attrs.PublicIP)
		}) {
			return parted{}
		}
	}
	by := n.Daemon.Status().Probes.By
	if peers < 2 || len(by) > 1 || by[probe.Well] < peers {
		return parted{} // it has not probed all of them, or they have not answered
	}
	return parted{snap: snap, since: i.elapsed()}
}

// isParted reports whether a lasting fault keeps packets from passing between two nodes, in one direction at least.
func (i *Invariants) isParted(a, b string) bool {
	return slices.ContainsFunc(i.situation.Faults, func(fault string) bool {
		return strings.HasPrefix(fault, a+" part "+b) || strings.HasPrefix(fault, b+" part "+a)
	})
}
