package cloudtest

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// Fake is one provider: its API and its metadata service in one handler.
type Fake interface {
	http.Handler
	Cloud() *Cloud
	// Options are those of a daemon on the instance, without addresses of servers.
	Options() api.Options
}

// Names are the words of one provider that cases look for.
type Names struct {
	List, Create, Delete string            // actions that the fake counts
	Rights               map[string]string // that an action needs, as errors name it
	Limit                string            // as errors name it
	Pages                bool              // the list of routes has pages
	Probe                string            // a path of the metadata service
}

// Trouble is an accident of a request.
type Trouble string

// The troubles. Each provider has codes of its own for the first group.
const (
	Fine     Trouble = ""
	Throttle Trouble = "throttle"
	Fail     Trouble = "fail"     // 500
	Deny     Trouble = "deny"     // the credentials lack the right
	BadKeys  Trouble = "bad keys" // unknown credentials or a wrong signature
	Exists   Trouble = "exists"
	Missing  Trouble = "missing"
	Full     Trouble = "full"
	Busy     Trouble = "busy" // the table is being changed, with providers that know this
	Invalid  Trouble = "invalid"

	Drop    Trouble = "drop"    // the connection breaks before the request is carried out
	Lose    Trouble = "lose"    // and after
	Hang    Trouble = "hang"    // no answer
	Garbage Trouble = "garbage" // an answer that is none
)

// Entry is a route in a table.
type Entry struct {
	Table, ID string
	Dst       netip.Prefix
	Hop       string // the provider's name of the next hop
	System    bool   // made by the provider
	State     cloud.State
	hidden    int // lists that do not show it yet
	pending   int // and then lists that show it as pending
}

// Cloud is the state of a fake. A test sets the fields before it makes requests.
type Cloud struct {
	Names
	Self, Other string   // next hops: the instance, and another one
	TableIDs    []string // in which the instance's routes belong

	Trouble  func(action string, nth int) Trouble // nth counts the action's requests from 1
	Lag      int                                  // lists that do not show a new route
	Pending  int                                  // lists that show it as pending then
	PageSize int                                  // 0: all on one page
	Limit    int                                  // routes of a table
	Gone     bool                                 // the metadata service knows nothing
	Rubbish  bool                                 // or tells rubbish
	Echo     bool                                 // errors repeat credentials and headers

	lock    sync.Mutex
	entries []Entry
	calls   map[string]int
	wrong   []string
	secrets []string // of all requests
	present []string // of this request
	nextID  int
}

// Put adds a route as another program would. The id of a provider that has ids is
// made, unless the entry has one.
func (c *Cloud) Put(e Entry) Entry {
	c.lock.Lock()
	defer c.lock.Unlock()
	if e.State == "" {
		e.State = cloud.Active
	}
	if e.Table == "" {
		e.Table = c.TableIDs[0]
	}
	c.entries = append(c.entries, e)
	return e
}

// Drop removes a route as another program would.
func (c *Cloud) Drop(table string, dst netip.Prefix) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.entries = slices.DeleteFunc(c.entries, func(e Entry) bool { return e.Table == table && e.Dst == dst })
}

// Stored returns the routes to dst, in all tables.
func (c *Cloud) Stored(dst netip.Prefix) []Entry {
	c.lock.Lock()
	defer c.lock.Unlock()
	var found []Entry
	for _, e := range c.entries {
		if e.Dst == dst {
			found = append(found, e)
		}
	}
	return found
}

// Calls returns how often an action was asked for.
func (c *Cloud) Calls(action string) int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.calls[action]
}

// Wrong returns what requests did wrong that no test asked for, such as a request
// to a foreign host.
func (c *Cloud) Wrong() []string {
	c.lock.Lock()
	defer c.lock.Unlock()
	return slices.Clone(c.wrong)
}

func (c *Cloud) complain(format string, args ...any) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// Secrets are the texts that no error may hold.
func (c *Cloud) Secrets() []string {
	c.lock.Lock()
	defer c.lock.Unlock()
	return slices.Clone(c.secrets)
}

func (c *Cloud) addSecret(secret string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.secrets = append(c.secrets, secret)
}

// asked counts a request and returns its trouble.
func (c *Cloud) asked(action string) Trouble {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.calls == nil {
		c.calls = map[string]int{}
	}
	c.calls[action]++
	if c.Trouble == nil {
		return Fine
	}
	return c.Trouble(action, c.calls[action])
}

// host checks the host of a request. Requests over a real connection are for the
// address of the test's server.
func (c *Cloud) host(r *http.Request, want string) {
	if r.Host != want && !strings.HasPrefix(r.Host, "127.0.0.1:") {
		c.complain("a request is for the host %s and not for %s", r.Host, want)
	}
}

// carry carries a request out, with its trouble. fail writes an error of the
// provider.
func (c *Cloud) carry(w http.ResponseWriter, r *http.Request, action string, fail func(Trouble, string),
	do func(http.ResponseWriter)) {
	text := "something about " + action
	if c.Echo {
		text = fmt.Sprintf("%q %s: the canonical request was %v", c.present, action, r.Header)
	}
	switch trouble := c.asked(action); trouble {
	case Fine:
		do(w)
	case Drop:
		panic(http.ErrAbortHandler)
	case Lose:
		do(discard{})
		panic(http.ErrAbortHandler)
	case Hang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case Garbage:
		fmt.Fprintf(w, "{<%s", text)
	default:
		fail(trouble, text)
	}
}

// discard is the answer that gets lost.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

// list returns the routes of a table that a list shows now.
func (c *Cloud) list(table string) []Entry {
	c.lock.Lock()
	defer c.lock.Unlock()
	var shown []Entry
	for i := range c.entries {
		e := &c.entries[i]
		switch {
		case e.Table != table:
			continue
		case e.hidden > 0:
			e.hidden--
			continue
		}
		out := *e
		if e.pending > 0 {
			e.pending--
			out.State = cloud.Pending
		}
		shown = append(shown, out)
	}
	return shown
}

// create makes a route. same reports whether an entry already stands where the new one would.
func (c *Cloud) create(e Entry, same func(Entry) bool) Trouble {
	c.lock.Lock()
	defer c.lock.Unlock()
	inTable := 0
	for _, old := range c.entries {
		if old.Table != e.Table {
			continue
		}
		if same(old) {
			return Exists
		}
		inTable++
	}
	if c.Limit > 0 && inTable >= c.Limit {
		return Full
	}
	c.nextID++
	if e.ID == "" {
		e.ID = fmt.Sprint(c.nextID)
	}
	e.State = cloud.Active
	e.hidden = c.Lag
	e.pending = c.Pending
	c.entries = append(c.entries, e)
	return Fine
}

// remove removes the routes that match.
func (c *Cloud) remove(match func(Entry) bool) Trouble {
	c.lock.Lock()
	defer c.lock.Unlock()
	before := len(c.entries)
	c.entries = slices.DeleteFunc(c.entries, match)
	if len(c.entries) == before {
		return Missing
	}
	return Fine
}
