package cloud

import (
	"context"
	"errors"
	"net/netip"
)

// Client reads and changes the routes of one provider's tables for the instance
// that the daemon runs on. It finds out that instance and its tables by itself, and
// does so again after a failure. Calls are made one at a time.
type Client interface {
	// Routes returns the IPv4 routes of each table that has to hold the route of
	// the own subnet. All pages are read; a part of a table is an error. A table shows
	// by its entries, of which the provider itself makes at least one.
	Routes(ctx context.Context) ([]Route, error)

	// Create makes a route from dst to this instance in the table of that id, and
	// returns once the provider shows it as active, or ctx ends.
	Create(ctx context.Context, table string, dst netip.Prefix) error

	// Delete removes the route. It compares what it can, so that it removes no
	// route that another instance has made under the same destination meanwhile.
	Delete(ctx context.Context, route Route) error
}

// Preparer is a Client whose instance needs a setting before it may forward packets.
type Preparer interface {
	// Prepare makes that setting, such as switching off the check of sources and
	// destinations of an AWS network interface. A failure is told and not fatal.
	Prepare(ctx context.Context) error
}

// Route is one entry of a provider's table.
type Route struct {
	Table  string       // id of the table; with gce the network
	ID     string       // the provider's name of the entry, if it has one
	Dst    netip.Prefix // masked
	Target string       // the next hop, in the provider's own words
	Self   bool         // the next hop is this instance
	Custom bool         // an operator or a program made it, and not the provider
	State  State
}

// State says whether an entry carries packets.
type State string

// The states of an entry.
const (
	Active  State = "active"
	Pending State = "pending" // created, not yet in force
	Broken  State = "broken"  // blackhole, disabled, failed: carries no packet
)

// The classes of errors that a Client's calls wrap, by what the caller can do
// about them. Texts never hold credentials.
var (
	ErrThrottled  = errors.New("throttled by the provider") // ask again, more slowly
	ErrQuota      = errors.New("quota of routes exceeded")  // the text names the limit
	ErrDenied     = errors.New("denied by the provider")    // credentials or rights; the text names the right
	ErrExists     = errors.New("route exists")
	ErrNotFound   = errors.New("no such route")
	ErrNoIdentity = errors.New("this host is no instance of the provider") // by its metadata service
)
