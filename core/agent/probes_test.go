package agent

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
)

// fakeSender answers each probe after as many seconds as its identifier says.
type fakeSender struct{ heard []probe.Heard }

func (f *fakeSender) Send(r probe.Request, done func(probe.Answer)) {
	time.AfterFunc(time.Duration(r.ID)*time.Second, func() { done(probe.Answer{ID: r.ID, OK: true}) })
}

func (f *fakeSender) Heard() ([]probe.Heard, bool) {
	heard := f.heard
	f.heard = nil
	return heard, true
}

// probed returns the identifiers of the answers that the node got, in order.
func (f *fakeNode) probed() (ids []uint64) {
	for _, in := range f.turns() {
		if in.Probed != nil {
			for _, a := range in.Probed.Answers {
				ids = append(ids, a.ID)
			}
		}
	}
	return ids
}

// TestProbesAreAnswered has several probes under way at once. The agent waits for none
// of them when it ends.
func TestProbesAreAnswered(t *testing.T) {
	inBubble(t, func(r *rig) {
		heard := probe.Heard{From: netip.MustParseAddr("10.5.1.0"), At: time.Now()}
		r.opts.Probes = &fakeSender{heard: []probe.Heard{heard}}
		r.node.react = onTurn(0, node.Effects{Probes: []probe.Request{{ID: 3}, {ID: 1}, {ID: 2}, {ID: 60}}})
		r.start()
		r.pass(5 * time.Second)
		if got := r.node.probed(); !slices.Equal(got, []uint64{1, 2, 3}) {
			t.Errorf("answers %v", got)
		}
		first := r.node.turns()[1].Probed
		if !first.Listens || !slices.Equal(first.Heard, []probe.Heard{heard}) {
			t.Errorf("heard: %+v", first)
		}
		if _, took := r.stop(); took > time.Second {
			t.Errorf("the end took %s", took)
		}
		r.pass(time.Minute) // the last answer comes after the end
	})
}

// TestAnswersAtOneTimeAreOneTurn loses none of several answers.
func TestAnswersAtOneTimeAreOneTurn(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.opts.Probes = &fakeSender{}
		r.node.react = onTurn(0, node.Effects{Probes: []probe.Request{{ID: 1}, {ID: 1}, {ID: 1}}})
		r.start()
		r.pass(2 * time.Second)
		if got := r.node.probed(); len(got) != 3 {
			t.Errorf("answers %v", got)
		}
		r.stop()
	})
}

// TestAnswersWithoutASender answers that this program cannot send probes.
func TestAnswersWithoutASender(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.node.react = onTurn(0, node.Effects{Probes: []probe.Request{{ID: 7}}})
		r.start()
		r.pass(time.Second)
		turns := r.node.turns()
		if len(turns) != 2 || turns[1].Probed == nil || turns[1].Probed.Answers[0].Unable == "" {
			t.Errorf("turns: %+v", turns)
		}
		r.stop()
	})
}
