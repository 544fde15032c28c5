package main

import (
	"flag"
	"strconv"
	"strings"
)

const redacted = "REDACTED"

// describe lists the flags that differ from their defaults, for the log. It
// shows no credential (interop F6: secrets in logs).
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

// harmless hides the credentials in the value of a flag.
func harmless(name, value string) string {
	switch name {
	case "etcd-password":
		return redacted
	case "etcd-endpoints", "kube-api-url":
		return hideCredentials(value)
	}
	return value
}

// hideCredentials returns a list of URLs without credentials. It neither parses
// the URLs nor splits the list: a password may hold commas and slashes, and a
// malformed URL must show no more than a good one. So it removes everything up
// to the last @, and everything from the first ? or #.
func hideCredentials(urls string) string {
	scheme := ""
	for _, known := range []string{"http://", "https://"} {
		if strings.HasPrefix(urls, known) {
			scheme = known
		}
	}
	at := strings.LastIndex(urls, "@")
	query := strings.IndexAny(urls, "?#")
	switch {
	case at >= 0 && query >= 0: // any entry may be part of a password
		return scheme + redacted
	case at >= 0:
		return scheme + redacted + urls[at:]
	case query >= 0:
		return urls[:query+1] + redacted
	}
	return urls
}

// hideRefused hides a refused value in the error that quotes it, if it may hold a
// credential: a URL with a user, or a misplaced --etcd-password.
func hideRefused(text, value string) string {
	if strings.Contains(value, "@") || strings.Contains(strings.ToLower(value), "password") {
		return strings.ReplaceAll(text, strconv.Quote(value), redacted)
	}
	return text
}

// quote makes a value with spaces or control characters readable.
func quote(s string) string {
	if q := strconv.Quote(s); s == "" || strings.Contains(s, " ") || q != `"`+s+`"` {
		return q
	}
	return s
}
