package agent

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/node"
)

// get returns the status and the lines of one answer.
func get(h *Health, path string) (int, []string) {
	w := httptest.NewRecorder()
	Listen{}.handler(h).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, strings.Split(w.Body.String(), "\n")
}

func TestHealth(t *testing.T) {
	good := node.Status{Ready: true, Phase: node.PhaseReady, Subnet: subnet}
	busy := node.Status{Phase: node.PhaseConfigured, Reasons: []string{"no lease is held", "the host is not yet as desired"}}
	with := func(s node.Status, change func(*node.Status)) node.Status { change(&s); return s }
	running, ready := []string{"flanneld is running"}, []string{"flanneld is ready"}
	sick, unready := "flanneld is not healthy", "flanneld is not ready yet"

	for name, c := range map[string]struct {
		happens        func(h *Health, now time.Time)
		health, readys []string
	}{
		"before the first turn": {
			func(*Health, time.Time) {},
			running, []string{unready, "starting"},
		},
		"ready": {
			func(h *Health, now time.Time) { h.turn(now, now.Add(time.Second), nil, good) },
			running, ready,
		},
		"not ready yet": {
			func(h *Health, now time.Time) { h.turn(now, now, nil, busy) },
			running, []string{unready, "no lease is held", "the host is not yet as desired"},
		},
		"not ready, for no reason": {
			func(h *Health, now time.Time) { h.turn(now, now, nil, node.Status{Phase: node.PhaseLeased}) },
			running, []string{unready, "the node is leased"},
		},
		"a decision takes long": {
			func(h *Health, now time.Time) {
				h.turn(now, now, nil, good)
				h.stepping(now.Add(-20 * time.Second))
			},
			[]string{sick, "stalled: a decision takes 20s"}, []string{unready, "stalled: a decision takes 20s"},
		},
		"a decision takes a while": {
			func(h *Health, now time.Time) { h.turn(now, now, nil, good); h.stepping(now.Add(-15 * time.Second)) },
			running, ready,
		},
		"the loop sleeps on": {
			func(h *Health, now time.Time) { h.turn(now, now.Add(-time.Minute), nil, good) },
			[]string{sick, "stalled: the loop should have turned 1m0s ago"}, []string{unready, "stalled: the loop should have turned 1m0s ago"},
		},
		"the loop need not turn": {
			func(h *Health, now time.Time) { h.turn(now, time.Time{}, nil, good) },
			running, ready,
		},
		"the kernel hangs": {
			func(h *Health, now time.Time) {
				h.turn(now, time.Time{}, []effect{{"look", now.Add(-50 * time.Second), lookLimit}}, good)
			},
			[]string{sick, "stalled: a look takes 50s"}, []string{unready, "stalled: a look takes 50s"},
		},
		"the kernel is slow": {
			func(h *Health, now time.Time) {
				h.turn(now, time.Time{}, []effect{{"look", now.Add(-40 * time.Second), lookLimit}}, good)
			},
			running, ready,
		},
		"the host resists for long": {
			func(h *Health, now time.Time) {
				failing := func(n int) node.Status { return with(busy, func(s *node.Status) { s.FailingFor = n }) }
				h.turn(now.Add(-6*time.Minute), now, nil, failing(1))
				h.turn(now, now, nil, failing(9))
			},
			[]string{sick, "the host has not been as desired for 6m0s, after 9 attempts"},
			[]string{unready, "no lease is held", "the host is not yet as desired"},
		},
		"the host resists now and then": {
			func(h *Health, now time.Time) {
				failing := with(good, func(s *node.Status) { s.FailingFor = 1 })
				h.turn(now.Add(-6*time.Minute), now, nil, failing)
				h.turn(now.Add(-3*time.Minute), now, nil, good)
				h.turn(now, now, nil, failing)
			},
			running, ready,
		},
		"renewal overdue": {
			func(h *Health, now time.Time) {
				h.turn(now, now, nil, with(good, func(s *node.Status) {
					s.RenewBy, s.Expires = now.Add(-9*time.Hour), now.Add(7*time.Hour)
				}))
			},
			[]string{sick, "renewal of lease 10.5.3.0-24 is overdue by 9h0m0s"}, ready,
		},
		"renewal late, but time enough": {
			func(h *Health, now time.Time) {
				h.turn(now, now, nil, with(good, func(s *node.Status) {
					s.RenewBy, s.Expires = now.Add(-8*time.Hour), now.Add(8*time.Hour)
				}))
			},
			running, ready,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &Health{}
				c.happens(h, time.Now())
				for path, want := range map[string][]string{"/healthz": c.health, "/readyz": c.readys} {
					code, got := get(h, path)
					wantCode := http.StatusOK
					if len(want) > 1 {
						wantCode = http.StatusServiceUnavailable
					}
					if diff := cmp.Diff(want, got); diff != "" || code != wantCode {
						t.Errorf("%s: status %d, want %d\n%s", path, code, wantCode, diff)
					}
				}
			})
		})
	}
}

// turn is one turn of the loop that took no time.
func (h *Health) turn(now, wake time.Time, running []effect, s node.Status) {
	h.stepping(now)
	h.waiting(wake, running, pulse(s))
	h.describedBy(func() node.Status { return s })
}

// The loop tells what it does, and a node that never comes back is noticed.
func TestHealthFollowsTheLoop(t *testing.T) {
	inBubble(t, func(r *rig) {
		block := make(chan struct{})
		r.node.status = node.Status{Ready: true, Phase: node.PhaseReady}
		r.node.react = func(turn int, _ node.Input) node.Effects {
			if turn == 1 {
				<-block
			}
			return node.Effects{}
		}
		r.start()
		if code, body := get(r.opts.Health, "/readyz"); code != http.StatusOK {
			t.Errorf("readyz %d %v", code, body)
		}
		r.host.hints <- struct{}{}
		r.pass(time.Minute)
		if code, body := get(r.opts.Health, "/healthz"); code != http.StatusServiceUnavailable || body[1] != "stalled: a decision takes 1m0s" {
			t.Errorf("healthz %d %v", code, body)
		}
		close(block)
		synctest.Wait()
		if code, body := get(r.opts.Health, "/healthz"); code != http.StatusOK {
			t.Errorf("healthz %d %v", code, body)
		}
		r.stop()
	})
}
