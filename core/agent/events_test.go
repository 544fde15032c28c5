package agent

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/node"
)

// TestEventsPage checks that the page has the log and the changes of the phase, in order.
func TestEventsPage(t *testing.T) {
	h := &Health{}
	logged := 0
	log := h.remembering(func(node.Event) { logged++ })
	log(node.Event{Kind: "config", Text: "10.5.0.0/16", Level: node.Warning})
	h.turn(time.Now(), time.Time{}, nil, node.Status{Phase: node.PhaseReady, Ready: true})
	h.turn(time.Now(), time.Time{}, nil, node.Status{Phase: node.PhaseReady, Ready: true})
	h.turn(time.Now(), time.Time{}, nil, node.Status{Phase: node.PhaseLeased})
	var got control.Events
	if code := page(t, h, control.EventsPage, &got); code != 200 || logged != 1 || got.Dropped != 0 {
		t.Fatalf("code %d, %d logged, %d dropped", code, logged, got.Dropped)
	}
	var texts []string
	for _, e := range got.Events {
		if e.At.IsZero() {
			t.Errorf("%+v has no time", e)
		}
		texts = append(texts, e.Level+" "+e.Kind+" "+e.Text)
	}
	const want = "warning config 10.5.0.0/16\ninfo phase ready\ninfo phase leased"
	if text := strings.Join(texts, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// TestEventsAreBounded logs more and longer events than the daemon remembers.
func TestEventsAreBounded(t *testing.T) {
	h := &Health{}
	log := h.remembering(func(node.Event) {})
	for i := range mostEvents + 5 {
		log(node.Event{Kind: strconv.Itoa(i), Text: strings.Repeat("ü", mostEventText)})
	}
	var got control.Events
	page(t, h, control.EventsPage, &got)
	if len(got.Events) != mostEvents || got.Dropped != 5 || got.Events[0].Kind != "5" ||
		got.Events[mostEvents-1].Kind != strconv.Itoa(mostEvents+4) {
		t.Errorf("%d events from %s on, %d dropped", len(got.Events), got.Events[0].Kind, got.Dropped)
	}
	if text := got.Events[0].Text; len(text) > mostEventText+len("…") || !strings.HasSuffix(text, "ü…") {
		t.Errorf("a text of %d bytes: %q", len(text), text)
	}
}

// TestRunRemembersItsLog runs a node that logs a state file of which it can read nothing.
func TestRunRemembersItsLog(t *testing.T) {
	inBubble(t, func(r *rig) {
		if err := os.MkdirAll(filepath.Dir(r.opts.StateFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r.opts.StateFile, []byte("odd"), 0o600); err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(r.t.Context())
		end()
		Run(ended, r.opts)
		var got control.Events
		page(t, r.opts.Health, control.EventsPage, &got)
		if len(got.Events) == 0 || got.Events[0].Kind != "state-unreadable" {
			t.Errorf("%+v", got)
		}
	})
}

// TestClockSetBack sets the clock back by an hour between two events: the first one stays the
// first. A clock set forward changes no event.
func TestClockSetBack(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ at, now, want time.Time }{
		{noon, noon.Add(time.Minute), noon},
		{noon, noon.Add(time.Minute - time.Hour), noon.Add(-time.Hour)},
		{noon, noon.Add(time.Minute + time.Hour), noon},
	} {
		if got := dated(c.at, c.now, time.Minute); !got.Equal(c.want) {
			t.Errorf("noted at %s, now %s: %s, want %s", c.at, c.now, got, c.want)
		}
	}
}
