package report_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/flanneld/flannel/internal/page/browser"
)

func TestPageOfARunThatPassed(t *testing.T) {
	b := browser.Open(t, write(t, play(t, "healthy", healthy)), 1280)
	if got := b.Text(t, "#verdict"); got != "✓ passed" {
		t.Errorf("verdict %q", got)
	}
	at := b.Text(t, "#now")
	if got := b.Text(t, "#inspector"); !strings.Contains(got, "✓ ready") {
		t.Errorf("at the end the node chosen is %q", got)
	}
	b.Scrub(t, 0)
	if got := b.Text(t, "#now"); got == at {
		t.Errorf("the slider moved, but the moment is still %s", got)
	}
	if got := b.Text(t, "#inspector"); !strings.Contains(got, "no network config yet") {
		t.Errorf("at the beginning the node chosen is %q", got)
	}
	b.Do(t, chromedp.KeyEvent(kb.ArrowRight))
	if got := b.Text(t, "#now"); got == "0.0000s" {
		t.Error("the arrow key moved nothing")
	}
	if got := b.Text(t, "#reach"); strings.Contains(got, "✓") {
		t.Errorf("packets arrived before any was sent:\n%s", got)
	}
	b.Scrub(t, 1000)
	if got := strings.Count(b.Text(t, "#reach"), "✓"); got != 6 {
		t.Errorf("%d pairs reach each other at the end, want 6", got)
	}
}

func TestPageOfARunThatFailed(t *testing.T) {
	for _, width := range []int64{1280, 800} {
		b := browser.Open(t, write(t, play(t, "planted", planted)), width)
		if got := b.Text(t, "#verdict"); got != "✕ failed" {
			t.Errorf("verdict %q", got)
		}
		for selector, want := range map[string]string{
			"#node option:checked": "n7",
			"#inspector":           "Wanted and actual differ in 19",
			"#inspector .diff":     "+ neigh ",
			"#path":                "neigh_missing",
			"#path h3":             "n7 → n13",
			"#doing":               "broken: n12 isolate",
			"#steps .failed":       "lost",
			"#timeline":            "n12 isolate",
			"#topology":            "isolate",
			"#replay":              "make scenario NAME=planted",
		} {
			if got := b.Text(t, selector); !strings.Contains(got, want) {
				t.Errorf("at width %d %s shows %q, want %q in it", width, selector, got, want)
			}
		}
		if browser.Ask[bool](t, b, `document.documentElement.scrollWidth > innerWidth`) {
			t.Errorf("at width %d the page scrolls sideways", width)
		}
		b.Do(t, chromedp.Click(chromedp.CSS(`[data-node="n12"]`)))
		if got := b.Text(t, "#inspector"); !strings.Contains(got, "isolate") {
			t.Errorf("n12 was chosen, and the inspector shows %q", got)
		}
	}
}
