// Package outputtest prints results in tests.
package outputtest

import (
	"bytes"
	"testing"

	"github.com/flanneld/flannel/tools/output"
)

// Print returns what a printer writes about a result. The zero printer writes a table
// without a limit of width.
func Print(t testing.TB, p output.Printer, r output.Result) string {
	t.Helper()
	var out bytes.Buffer
	p.Out = &out
	if err := p.Print(r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
