package daemonflags

import (
	"strconv"
	"strings"
)

// Redacted replaces a credential.
const Redacted = "REDACTED"

// Harmless hides the credentials in the value of a flag.
func Harmless(name, value string) string {
	switch name {
	case "etcd-password":
		return Redacted
	case "etcd-endpoints", "kube-api-url", "remote":
		return HideCredentials(value)
	}
	return value
}

// HoldsCredential reports whether the value of a flag may hold a credential.
func HoldsCredential(name string) bool {
	const probe = "https://user:password@host"
	return Harmless(name, probe) != probe
}

// HideCredentials returns a list of URLs without credentials. It neither parses
// the URLs nor splits the list: a password may hold commas and slashes, and a
// malformed URL must show no more than a good one. So it removes everything up
// to the last @, and everything from the first ? or #.
func HideCredentials(urls string) string {
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
		return scheme + Redacted
	case at >= 0:
		return scheme + Redacted + urls[at:]
	case query >= 0:
		return urls[:query+1] + Redacted
	}
	return urls
}

// HideRefused hides a refused value in the error that quotes it, if it may hold a
// credential: a URL with a user, or a misplaced --etcd-password.
func HideRefused(text, value string) string {
	if strings.Contains(value, "@") || strings.Contains(strings.ToLower(value), "password") {
		return strings.ReplaceAll(text, strconv.Quote(value), Redacted)
	}
	return text
}
