package cloudtest

import (
	"io"
	"net/http"
	"strings"
)

// metadata serves the facts of a metadata service that demands no header.
func (c *Cloud) metadata(w http.ResponseWriter, r *http.Request, base string, facts map[string]string) {
	fail := func(Trouble, string) { http.Error(w, "trouble", http.StatusServiceUnavailable) }
	c.carry(w, r, r.URL.Path, fail, func(w http.ResponseWriter) {
		text, known := facts[strings.TrimPrefix(r.URL.Path, base)]
		switch {
		case c.Gone || !known:
			http.NotFound(w, r)
		case c.Rubbish:
			io.WriteString(w, "<html>"+strings.Join(c.Secrets(), " "))
		default:
			io.WriteString(w, text)
		}
	})
}
