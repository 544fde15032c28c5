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
	Listen{}.handler(NewRoster(h)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, strings.Split(w.Body.String(), "\n")
}

// The statuses and answers of TestHealth.
var (
	goodStatus = node.Status{Ready: true, Phase: node.PhaseReady, Subnet: subnet}
	busyStatus = node.Status{
		Phase:   node.PhaseConfigured,
		Reasons: []string{"no lease is held", "the host is not yet as desired"},
	}
	isRunning = []string{"flanneld is running"}
	isReady   = []string{"flanneld is ready"}
)

const (
	notHealthy = "flanneld is not healthy"
	notReady   = "flanneld is not ready yet"
)

func statusWith(s node.Status, change func(*node.Status)) node.Status {
	change(&s)
	return s
}

// healthCase is a history of a run, and the answers at /healthz and /readyz after it.
type healthCase struct {
	happens        func(h *Health, now time.Time)
	health, readys []string
}

var healthCases = map[string]healthCase{
	"before the first turn": {
		func(*Health, time.Time) {},
		isRunning, []string{notReady, "starting"},
	},
	"ready": {
		func(h *Health, now time.Time) { h.turn(now, now.Add(time.Second), nil, goodStatus) },
		isRunning, isReady,
	},
	"not ready yet": {
		func(h *Health, now time.Time) { h.turn(now, now, nil, busyStatus) },
		isRunning, []string{notReady, "no lease is held", "the host is not yet as desired"},
	},
	"not isReady, for no reason": {
		func(h *Health, now time.Time) { h.turn(now, now, nil, node.Status{Phase: node.PhaseLeased}) },
		isRunning, []string{notReady, "the node is leased"},
	},
	"a decision takes long": {
		func(h *Health, now time.Time) {
			h.turn(now, now, nil, goodStatus)
			h.stepping(now.Add(-20 * time.Second))
		},
		[]string{notHealthy, "stalled: a decision takes 20s"}, []string{notReady, "stalled: a decision takes 20s"},
	},
	"a decision takes a while": {
		func(h *Health, now time.Time) {
			h.turn(now, now, nil, goodStatus)
			h.stepping(now.Add(-15 * time.Second))
		},
		isRunning, isReady,
	},
	"the loop sleeps on": {
		func(h *Health, now time.Time) { h.turn(now, now.Add(-time.Minute), nil, goodStatus) },
		[]string{notHealthy, "stalled: the loop should have turned 1m0s ago"},
		[]string{notReady, "stalled: the loop should have turned 1m0s ago"},
	},
	"the loop need not turn": {
		func(h *Health, now time.Time) { h.turn(now, time.Time{}, nil, goodStatus) },
		isRunning, isReady,
	},
	"the kernel hangs": {
		func(h *Health, now time.Time) {
			h.turn(now, time.Time{}, []effect{{"look", now.Add(-50 * time.Second), lookLimit}}, goodStatus)
		},
		[]string{notHealthy, "stalled: a look takes 50s"}, []string{notReady, "stalled: a look takes 50s"},
	},
	"the kernel is slow": {
		func(h *Health, now time.Time) {
			h.turn(now, time.Time{}, []effect{{"look", now.Add(-40 * time.Second), lookLimit}}, goodStatus)
		},
		isRunning, isReady,
	},
	"the host resists for long": {
		func(h *Health, now time.Time) {
			failing := func(n int) node.Status { return statusWith(busyStatus, func(s *node.Status) { s.FailingFor = n }) }
			h.turn(now.Add(-6*time.Minute), now, nil, failing(1))
			h.turn(now, now, nil, failing(9))
		},
		[]string{notHealthy, "the host has not been as desired for 6m0s, after 9 attempts"},
		[]string{notReady, "no lease is held", "the host is not yet as desired"},
	},
	"the host resists now and then": {
		func(h *Health, now time.Time) {
			failing := statusWith(goodStatus, func(s *node.Status) { s.FailingFor = 1 })
			h.turn(now.Add(-6*time.Minute), now, nil, failing)
			h.turn(now.Add(-3*time.Minute), now, nil, goodStatus)
			h.turn(now, now, nil, failing)
		},
		isRunning, isReady,
	},
	"renewal overdue": {
		func(h *Health, now time.Time) {
			h.turn(now, now, nil, statusWith(goodStatus, func(s *node.Status) {
				s.RenewBy, s.Expires = now.Add(-9*time.Hour), now.Add(7*time.Hour)
			}))
		},
		[]string{notHealthy, "renewal of lease 10.5.3.0-24 is overdue by 9h0m0s"}, isReady,
	},
	"a late renewal, with time left": {
		func(h *Health, now time.Time) {
			h.turn(now, now, nil, statusWith(goodStatus, func(s *node.Status) {
				s.RenewBy, s.Expires = now.Add(-8*time.Hour), now.Add(8*time.Hour)
			}))
		},
		isRunning, isReady,
	},
}

func TestHealth(t *testing.T) {
	for name, c := range healthCases {
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

// turn reports one turn of the loop that took no time.
func (h *Health) turn(now, wake time.Time, running []effect, s node.Status) {
	h.stepping(now)
	h.waiting(wake, running, pulse(s))
	h.askedBy(func(question func(machine)) bool {
		question(&fakeNode{status: s})
		return true
	})
}

// The loop reports its turns, so Health notices a turn that never ends.
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
		if code, body := get(r.opts.Health, "/healthz"); code != http.StatusServiceUnavailable ||
			body[1] != "stalled: a decision takes 1m0s" {
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

// The status says since when the node has been unready, over several turns, and nothing once the node is ready.
func TestUnreadySince(t *testing.T) {
	h, now := &Health{}, time.Now()
	for _, step := range []struct {
		after time.Duration
		s     node.Status
		want  time.Time
	}{
		{0, busyStatus, now},
		{2 * time.Second, goodStatus, time.Time{}},
		{3 * time.Second, busyStatus, now.Add(3 * time.Second)},
		{8 * time.Second, busyStatus, now.Add(3 * time.Second)},
	} {
		h.turn(now.Add(step.after), time.Time{}, nil, step.s)
		if got := h.Status().UnreadySince; !got.Equal(step.want) {
			t.Errorf("after %s: unready since %s, want %s", step.after, got, step.want)
		}
	}
}
