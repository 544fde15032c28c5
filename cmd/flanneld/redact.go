package main

import (
	"flag"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/internal/daemonflags"
)

// describe lists the flags that differ from their defaults, for the log. It
// shows no credential (interop F6: secrets in logs).
func describe(fs *flag.FlagSet) string {
	var given []string
	fs.VisitAll(func(f *flag.Flag) {
		if value := f.Value.String(); value != f.DefValue {
			given = append(given, "--"+f.Name+"="+quote(daemonflags.Harmless(f.Name, value)))
		}
	})
	if given == nil {
		return "all options at their defaults"
	}
	return "options: " + strings.Join(given, " ")
}

// quote makes a value with spaces or control characters readable.
func quote(s string) string {
	if q := strconv.Quote(s); s == "" || strings.Contains(s, " ") || q != `"`+s+`"` {
		return q
	}
	return s
}
