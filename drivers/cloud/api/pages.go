package api

import (
	"errors"
	"fmt"

	"github.com/flanneld/flannel/drivers/cloud"
)

// mostPages bounds a list. A table has tens of routes, a page some more.
const mostPages = 200

// Pages follows the tokens from page to page of a list, and ends a list that
// leads in a circle.
type Pages struct {
	Doing string
	seen  map[string]bool
}

// Next takes the token of the next page and reports whether there is one.
func (p *Pages) Next(token string) (bool, error) {
	if token == "" {
		return false, nil
	}
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	if p.seen[token] || len(p.seen) == mostPages {
		return false, &Fault{Doing: p.Doing, Text: fmt.Sprintf("the list does not end after %d pages", len(p.seen)+1)}
	}
	p.seen[token] = true
	return true, nil
}

// Expected reports whether an error says something about a route, and nothing
// about the instance or its tables.
func Expected(err error) bool {
	return errors.Is(err, cloud.ErrExists) ||
		errors.Is(err, cloud.ErrNotFound) ||
		errors.Is(err, cloud.ErrQuota) ||
		errors.Is(err, cloud.ErrThrottled)
}
