package main

import (
	"flag"
	"strconv"
	"strings"
)

const redacted = "REDACTED"

// describe lists the flags that differ from their defaults, for the log: fit
// to be seen by anybody (interop F6).
func describe(fs *flag.FlagSet) string {
	var given []string
	fs.VisitAll(func(f *flag.Flag) {
		if value := f.Value.String(); value != f.DefValue {
			given = append(given, "--"+f.Name+"="+quote(harmless(f.Name, value)))
		}
	})
	if given == nil {
		return "all options at their defaults"
	}
	return "options: " + strings.Join(given, " ")
}

// harmless hides the secrets in the value of a flag.
func harmless(name, value string) string {
	switch name {
	case "etcd-password":
		return redacted
	case "etcd-endpoints", "kube-api-url":
		return hideCredentials(value)
	}
	return value
}

// hideCredentials replaces what comes before the @ in each of the URLs. It
// does not parse them: a malformed URL shows no more than a good one.
func hideCredentials(urls string) string {
	parts := strings.Split(urls, ",")
	for i, u := range parts {
		at := strings.LastIndex(u, "@")
		if at < 0 {
			continue
		}
		scheme := ""
		if s, _, ok := strings.Cut(u[:at], "://"); ok {
			scheme = s + "://"
		}
		parts[i] = scheme + redacted + u[at:]
	}
	return strings.Join(parts, ",")
}

// quote makes a value with spaces or control characters readable.
func quote(s string) string {
	if q := strconv.Quote(s); s == "" || strings.Contains(s, " ") || q != `"`+s+`"` {
		return q
	}
	return s
}
