// Package browser opens pages in a headless Chromium, for tests.
package browser

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
)

// Browser is one page in a headless browser, and what it complained about.
type Browser struct {
	ctx      context.Context
	mu       sync.Mutex
	troubles []string
}

// Open loads a page in Chromium, and fails the test at its end if there was an
// error on the console or a request.
func Open(t *testing.T, path string, width int64) *Browser {
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
	b := &Browser{ctx: ctx}
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
	b.Do(t, chromedp.EmulateViewport(width, 900), chromedp.Navigate(page))
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
func (b *Browser) hear(event any) {
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

// Do performs steps.
func (b *Browser) Do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// Ask evaluates an expression in the page.
func Ask[T any](t *testing.T, b *Browser, expression string) T {
	t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Text returns the text of an element.
func (b *Browser) Text(t *testing.T, selector string) string {
	t.Helper()
	s, err := chromedp.Run(b.ctx, chromedp.TextContent(chromedp.CSS(selector)))
	if err != nil {
		t.Fatalf("%s: %v", selector, err)
	}
	return s
}

// Scrub moves the slider, from 0 to 1000, as a hand does.
func (b *Browser) Scrub(t *testing.T, to int) {
	t.Helper()
	Ask[bool](t, b, fmt.Sprintf(`(s => { s.value = %d; return s.dispatchEvent(new Event("input")) })`+
		`(document.getElementById("scrub"))`, to))
}

// Wait waits until an expression is true.
func (b *Browser) Wait(t *testing.T, expression string) {
	t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool](expression)); err != nil {
		t.Errorf("%s: %v", expression, err)
	}
}
