package noredirect

import "net/http"

// Client returns a copy of a client that takes a redirect as the answer.
func Client(c *http.Client) *http.Client {
	own := *c
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}
