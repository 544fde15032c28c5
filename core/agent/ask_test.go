package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
)

// page asks at the control socket's pages, and reads an answer with status 200.
func page(t *testing.T, h *Health, path string, answer any) int {
	t.Helper()
	mux := http.NewServeMux()
	addPages(mux, NewRoster(h), root, everyone)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), answer); err != nil {
			t.Errorf("%s: %v\n%s", path, err, w.Body)
		}
	}
	return w.Code
}

func TestPages(t *testing.T) {
	h := &Health{Version: "v1"}
	h.turn(time.Now(), time.Time{}, nil, node.Status{Phase: node.PhaseReady, Ready: true, Subnet: subnet})
	var s node.Status
	if code := page(t, h, control.StatusPage, &s); code != 200 || !s.Ready || s.Version != "v1" || s.Age != 0 ||
		s.TakenAt.IsZero() {
		t.Errorf("status %d, %+v", code, s)
	}
	var p control.Peers
	if code := page(t, h, control.PeersPage, &p); code != 200 || len(p.Peers) != 1 || p.Peers[0].Subnet != subnet {
		t.Errorf("peers %d, %+v", code, p)
	}
	var d control.Diff
	if code := page(t, h, control.DiffPage, &d); code != 200 || len(d.Lanes) != 1 || d.Lanes[0].Lane != "host" {
		t.Errorf("diff %d, %+v", code, d)
	}
	var st control.State
	if code := page(t, h, control.StatePage, &st); code != 200 || len(st.Lanes) != 1 || st.Lanes[0].Have != "" {
		t.Errorf("state %d, %+v", code, st)
	}
}

// Before the node has begun there is a status without a time, and nothing else.
func TestPagesBeforeTheNodeBegins(t *testing.T) {
	h := &Health{}
	var s node.Status
	if code := page(t, h, control.StatusPage, &s); code != 200 || s.Phase != node.PhaseIdle || !s.TakenAt.IsZero() {
		t.Errorf("status %d, %+v", code, s)
	}
	if code := page(t, h, control.PeersPage, nil); code != http.StatusServiceUnavailable {
		t.Errorf("peers %d", code)
	}
}

// A node whose turn does not end gives its last known status, with its age. Once the
// turn has ended it gives the present one.
func TestPagesOfABusyNode(t *testing.T) {
	inBubble(t, func(r *rig) {
		block := make(chan struct{})
		r.node.status = node.Status{Ready: true, Phase: node.PhaseReady, MTU: 1450, Subnet: subnet}
		r.node.react = func(turn int, _ node.Input) node.Effects {
			if turn == 1 {
				<-block
			}
			return node.Effects{}
		}
		r.start()
		r.pass(time.Minute)
		r.host.hints <- struct{}{}
		synctest.Wait()
		r.pass(time.Minute)
		var s node.Status
		code := page(t, r.opts.Health, control.StatusPage, &s)
		if code != 200 || s.Ready || s.MTU != 1450 || s.Subnet != subnet || s.Age < 2*time.Minute || len(s.Unhealthy) != 1 {
			t.Errorf("status %d, %+v", code, s)
		}
		for _, path := range []string{control.PeersPage, control.DiffPage, control.StatePage} {
			if code := page(t, r.opts.Health, path, nil); code != http.StatusServiceUnavailable {
				t.Errorf("%s of a busy node: %d", path, code)
			}
		}
		close(block)
		synctest.Wait()
		s = node.Status{}
		if code := page(t, r.opts.Health, control.StatusPage, &s); code != 200 || !s.Ready || s.Age != 0 {
			t.Errorf("afterwards: status %d, %+v", code, s)
		}
		r.stop()
	})
}

// The node answers during a look that hangs.
func TestPagesDuringALookThatHangs(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.node.status = node.Status{Phase: node.PhaseLeased, MTU: 1450}
		r.node.react = onTurn(0, node.Effects{Lanes: onHost(node.LaneEffects{Look: &node.Look{}})})
		block := make(chan struct{})
		r.host.look = func(context.Context) error { <-block; return nil }
		r.start()
		r.pass(10 * time.Minute)
		var s node.Status
		if code := page(t, r.opts.Health, control.StatusPage, &s); code != 200 || s.Age != 0 || len(s.Unhealthy) == 0 {
			t.Errorf("status %d, %+v", code, s)
		}
		close(block)
		r.stop()
	})
}

// pulseInTurn is a node whose pulse is taken in a turn: it fills caches, which answers to questions read.
type pulseInTurn struct {
	*fakeNode
	ask   func(func(machine)) bool
	asked []bool // whether another goroutine could ask the node during each pulse
}

func (p *pulseInTurn) Pulse() node.Pulse {
	p.asked = append(p.asked, p.ask(func(machine) {}))
	return p.fakeNode.Pulse()
}

// TestPulseBelongsToTheTurn asks the node while the loop takes its pulse.
func TestPulseBelongsToTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := &pulseInTurn{fakeNode: &fakeNode{}}
		h := &Health{}
		n.ask = func(q func(machine)) bool { return h.question(q) }
		lanes := [node.LaneCount]driver.Lane{node.HostLane: &fakeHost{}}
		done := make(chan struct{})
		go func() {
			run(ctx, Options{Lanes: lanes, Store: &fakeStore{}, Health: h, Log: func(node.Event) {}}, n)
			close(done)
		}()
		synctest.Wait()
		time.Sleep(time.Minute) // of the bubble
		cancel()
		<-done
		if len(n.asked) == 0 || slices.Contains(n.asked, true) {
			t.Errorf("asked during a pulse: %v", n.asked)
		}
	})
}
