package node

import (
	"fmt"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

// reportQuarantined logs that a record is ignored. Every node ignores it; the owner of a
// subnet that the record claims makes a notice of it.
func (n *Node) reportQuarantined(q lease.Quarantined) {
	key := fmt.Sprintf("key %q: ", q.Raw)
	text := key + strings.TrimPrefix(q.Reason, key) + "; the record is ignored, others are not touched"
	a := n.assigned()
	if a == nil || q.Key == a.Key && q.OverwroteAt != 0 || !q.Key.Overlaps(a.Key) {
		n.event(Warning, "quarantined", text)
		return
	}
	n.event(Warning, "subnet-overlap", fmt.Sprintf("%s, though other nodes may follow it and not us: delete it if it "+
		"should not exist", text))
}

// Peers that are restarted or replaced are silent for a while. Those that are silent
// for longer get a notice, and further ones no more often than silencePause.
const (
	longSilence  = 10 * time.Minute
	silencePause = 10 * time.Minute
	silenceCheck = 10 * time.Second // between two counts of silent peers
)

// silence holds the peers that the operator knows to be silent.
type silence struct {
	peers   int       // in the last notice, or fewer if some answer again since then
	told    time.Time // time of the last notice
	checkAt time.Time // no count before
}

// followSilence logs that peers have been unreachable for a long time, and that all of
// them answer again.
func (n *Node) followSilence() {
	s := &n.probes.silence
	if n.now.Before(s.checkAt) {
		return
	}
	s.checkAt = n.now.Add(silenceCheck)
	silent := n.probes.prober.Silent(n.now.Add(-longSilence))
	switch {
	case silent.Peers == 0 && s.peers > 0 && n.probes.prober.Silent(n.now).Peers == 0:
		n.event(Info, "peers-answer", "all peers that were silent for long answer again, or are gone")
		s.peers = 0
	case silent.Peers > s.peers && (s.peers == 0 || n.now.Sub(s.told) >= silencePause):
		n.event(Warning, "peers-silent", fmt.Sprintf("subnets without an answer for more than %s: %d; "+
			"the first is %s, which %s; flannelctl peers shows all",
			longSilence, silent.Peers, silent.First, silent.Result.Text()))
		s.peers, s.told = silent.Peers, n.now
	case silent.Peers > 0 && silent.Peers < s.peers:
		s.peers = silent.Peers // others that fall silent are news again
	}
}
