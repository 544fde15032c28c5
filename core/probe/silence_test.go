package probe

import (
	"testing"
	"time"
)

// TestSilenceOfAllIsNoticedSoon has all peers fall silent at once. It is noticed soon after it has lasted long enough,
// although each peer is examined once in a minute only.
func TestSilenceOfAllIsNoticedSoon(t *testing.T) {
	for _, peers := range []int{2, 10} {
		var targets []Target
		for i := range peers {
			targets = append(targets, target(i+1))
		}
		n := newNetwork(t, time.Minute, targets...)
		n.run(3 * time.Minute)
		begin := n.now
		for _, x := range targets {
			n.dead[x.Addr] = true
		}
		const lasting = 30 * time.Second
		for !n.allSilent(lasting) {
			n.run(time.Second)
		}
		took, limit := n.now.Sub(begin), time.Minute+lasting+20*time.Second
		if peers > 2 {
			limit = lasting + 40*time.Second
		}
		if took < lasting || took > limit {
			t.Errorf("%d peers: the silence of all is noticed after %v, want %v to %v", peers, took, lasting, limit)
		}
	}
}

func (n *network) allSilent(d time.Duration) bool {
	_, is := n.p.AllSilent(d)
	return is
}
