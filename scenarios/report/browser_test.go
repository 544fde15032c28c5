package report_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// browser is one page in a headless browser, and what it complained about.
type browser struct {
	context.Context
	mu       sync.Mutex
	troubles []string
}

// open loads a page in Chromium, and fails the test at its end if there was an
// error on the console or a request to anybody.
func open(t *testing.T, path string, width int64) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium here to open the page in (make deps installs it)")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute) // only if it hangs
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{Context: ctx}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	if err == nil {
		_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	}
	if err == nil {
		_, err = chromedp.Call(ctx, runtime.Enable, cdp.Empty{})
	}
	if err != nil {
		t.Fatal(err)
	}
	page := "file://" + path
	b.do(t, chromedp.EmulateViewport(width, 900), chromedp.Navigate(page))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, trouble := range b.troubles {
			if trouble != "request "+page {
				t.Error(trouble)
			}
		}
	})
	return b
}

// hear records errors and requests, of which our pages make none.
func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.troubles = append(b.troubles, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.troubles = append(b.troubles, "console: "+string(e.Type))
	case *log.EventEntryAdded:
		b.troubles = append(b.troubles, "log: "+e.Entry.Text)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, "data:") {
			b.troubles = append(b.troubles, "request "+e.Request.URL)
		}
	}
}

func (b *browser) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b, steps...); err != nil {
		t.Fatal(err)
	}
}

// ask evaluates an expression in the page.
func ask[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// text returns the text of an element.
func (b *browser) text(t *testing.T, selector string) string {
	t.Helper()
	s, err := chromedp.Run(b, chromedp.TextContent(chromedp.CSS(selector)))
	if err != nil {
		t.Fatalf("%s: %v", selector, err)
	}
	return s
}

// scrub moves the slider, from 0 to 1000, as a hand does.
func (b *browser) scrub(t *testing.T, to int) {
	t.Helper()
	ask[bool](t, b, fmt.Sprintf(`(s => { s.value = %d; return s.dispatchEvent(new Event("input")) })`+
		`(document.getElementById("scrub"))`, to))
}

func TestPageOfARunThatPassed(t *testing.T) {
	b := open(t, write(t, play(t, "healthy", healthy)), 1280)
	if got := b.text(t, "#verdict"); got != "✓ passed" {
		t.Errorf("verdict %q", got)
	}
	at := b.text(t, "#now")
	if got := b.text(t, "#inspector"); !strings.Contains(got, "✓ ready") {
		t.Errorf("at the end the node chosen is %q", got)
	}
	b.scrub(t, 0)
	if got := b.text(t, "#now"); got == at {
		t.Errorf("the slider moved, but the moment is still %s", got)
	}
	if got := b.text(t, "#inspector"); !strings.Contains(got, "no network config yet") {
		t.Errorf("at the beginning the node chosen is %q", got)
	}
	b.do(t, chromedp.KeyEvent(kb.ArrowRight))
	if got := b.text(t, "#now"); got == "0.0000s" {
		t.Error("the arrow key moved nothing")
	}
	if got := b.text(t, "#reach"); strings.Contains(got, "✓") {
		t.Errorf("packets arrived before any was sent:\n%s", got)
	}
	b.scrub(t, 1000)
	if got := strings.Count(b.text(t, "#reach"), "✓"); got != 6 {
		t.Errorf("%d pairs reach each other at the end, want 6", got)
	}
}

func TestPageOfARunThatFailed(t *testing.T) {
	for _, width := range []int64{1280, 800} {
		b := open(t, write(t, play(t, "planted", planted)), width)
		if got := b.text(t, "#verdict"); got != "✕ failed" {
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
			if got := b.text(t, selector); !strings.Contains(got, want) {
				t.Errorf("at width %d %s shows %q, want %q in it", width, selector, got, want)
			}
		}
		if ask[bool](t, b, `document.documentElement.scrollWidth > innerWidth`) {
			t.Errorf("at width %d the page scrolls sideways", width)
		}
		b.do(t, chromedp.Click(chromedp.CSS(`[data-node="n12"]`)))
		if got := b.text(t, "#inspector"); !strings.Contains(got, "isolate") {
			t.Errorf("n12 was chosen, and the inspector shows %q", got)
		}
	}
}

func TestPlayReachesTheEnd(t *testing.T) {
	b := open(t, write(t, play(t, "healthy", healthy)), 1280)
	b.scrub(t, 990)
	b.do(t, chromedp.Click(chromedp.CSS("#play")))
	_, err := chromedp.Run(b, chromedp.Poll[bool](`document.getElementById("scrub").value === "1000" && `+
		`document.getElementById("play").textContent.includes("play")`))
	if err != nil {
		t.Error(err)
	}
}
