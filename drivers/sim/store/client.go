package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/world"
	"github.com/flanneld/flannel/internal/wake"
)

// ClientOptions fix how a client sees its world. Nil selects the defaults.
type ClientOptions struct {
	// Reachable reports whether packets get to the server and back at present;
	// default always.
	Reachable func() bool
	// Clock returns the time of the client's process; default the world's.
	Clock func() time.Time
	// Servers are those that the client gets its leases from; none: from the store itself.
	Servers []*Server
}

// Client is one process's connection to a [Store].
//
// As a [lease.Store] it answers at once, since there is only one thread; its
// View follows the server through a stream. [Client.Do] sends a request through
// a network, with delays, losses and late answers.
type Client struct {
	store *Store
	name  string
	opts  ClientOptions
	label clientLabels
	rng   clientChances

	view     lease.View
	changed  wake.Signal
	onChange func()

	nodes  nodeClient    // of a store of nodes
	remote *remote       // of servers; nil: the client uses the store itself
	known  *storeVersion // the newest version received
	first  int64         // the revision of the first version

	reread bool // a stream cannot follow known: the client must read everything again

	stream  *storeStream // nil: not connected
	got     uint64       // batches taken from stream
	attempt int          // failed dials in a row
	dialing uint64       // the current dial; answers to earlier ones are void
	redial  *world.Event
	ping    *world.Event

	closed bool
	frozen bool
	inbox  []func() // arrivals during a freeze
	fates  []Fate
	doomed map[int64]time.Duration // lengths of the TTLs that the client has asked to end

	cut     bool // partitioned off by command
	expired bool // its auth token is no longer valid
}

var _ lease.Store = (*Client)(nil)

// clientLabels name the events of the client.
type clientLabels struct{ up, down, timeout, ping, connect, batch string }

func newClientLabels(prefix string) clientLabels {
	return clientLabels{
		up: prefix + "request", down: prefix + "answer", timeout: prefix + "timeout",
		ping: prefix + "ping", connect: prefix + "connect", batch: prefix + "batch",
	}
}

// clientChances are the client's streams of chance, one for each subject.
type clientChances struct{ latency, request, watch, redial, ping *rand.Rand }

func newClientChances(w *world.World, prefix string) clientChances {
	return clientChances{
		latency: w.Rand(prefix + "latency"), request: w.Rand(prefix + "request"), watch: w.Rand(prefix + "watch"),
		redial: w.Rand(prefix + "redial"), ping: w.Rand(prefix + "ping"),
	}
}

// Client connects a process to the store, under the name of its host.
func (s *Store) Client(name string, opts ClientOptions) *Client {
	c := &Client{store: s, name: name, opts: opts, changed: wake.NewSignal()}
	c.doomed = map[int64]time.Duration{}
	c.label = newClientLabels(name + ": store ")
	c.rng = newClientChances(s.world, "store/"+name+"/")
	c.nodes = s.newNodeClient(name)
	c.view.Assigned = c.nodes.assigned
	s.clients = append(s.clients, c)
	if len(opts.Servers) > 0 {
		c.remote = &remote{servers: opts.Servers, at: c.rng.redial.IntN(len(opts.Servers))}
	}
	c.schedulePing()
	c.connect()
	return c
}

// Close ends the connection and all callbacks. Requests on their way still
// reach the server.
func (c *Client) Close() {
	c.closed = true
	c.store.clients = slices.DeleteFunc(c.store.clients, func(o *Client) bool { return o == c })
	c.redial.Cancel()
	c.ping.Cancel()
	if c.stream != nil {
		c.store.endStream(c.stream)
		c.stream = nil
	}
}

// View returns the latest knowledge of the store.
func (c *Client) View() lease.View { return c.view }

// Current reports whether all changes of the records or node objects have reached the client.
func (c *Client) Current() bool {
	st := c.stream
	behind := st != nil && st.server != nil && (st.server.client == nil || !st.server.client.Current())
	return st != nil && !behind && !st.busy && !st.dirty && st.sent == c.got
}

// Changed receives a value after View has changed.
func (c *Client) Changed() <-chan struct{} { return c.changed }

// OnChange calls fn whenever View has changed: it is Changed in virtual time.
func (c *Client) OnChange(fn func()) { c.onChange = fn }

// Create takes a free key, at once.
func (c *Client) Create(ctx context.Context, key lease.Key, attrs lease.Attrs, ttl time.Duration) (lease.Grant, error) {
	return c.call(ctx, node.Request{Verb: node.Create, Key: key, Attrs: attrs, TTL: ttl})
}

// Renew extends a grant, at once.
func (c *Client) Renew(ctx context.Context, g lease.Grant) (lease.Grant, error) {
	return c.call(ctx, node.Request{Verb: node.Renew, Grant: g})
}

// Update changes the attributes, at once.
func (c *Client) Update(ctx context.Context, g lease.Grant, attrs lease.Attrs, ttl time.Duration) (lease.Grant, error) {
	return c.call(ctx, node.Request{Verb: node.Update, Grant: g, Attrs: attrs, TTL: ttl})
}

// Move replaces the client's own record by one under another key, at once.
func (c *Client) Move(
	ctx context.Context, g lease.Grant, to lease.Key, attrs lease.Attrs, ttl time.Duration,
) (lease.Grant, error) {
	return c.call(ctx, node.Request{Verb: node.Move, Grant: g, Key: to, Attrs: attrs, TTL: ttl})
}

// Release deletes the client's own record, at once.
func (c *Client) Release(ctx context.Context, g lease.Grant) error {
	_, err := c.call(ctx, node.Request{Verb: node.Release, Grant: g})
	return err
}

func (c *Client) call(ctx context.Context, req node.Request) (lease.Grant, error) {
	if err := ctx.Err(); err != nil {
		return lease.Grant{}, storeError(req, err)
	}
	if c.closed {
		return lease.Grant{}, storeError(req, errStoreClosed)
	}
	if !c.reachable() {
		return lease.Grant{}, storeError(req, errStoreUnreachable)
	}
	if c.nodes.table != nil {
		return c.callNodes(req)
	}
	x := c.begin(req)
	if req.Verb == node.Create {
		x.ttl = c.store.grant(req.TTL)
	}
	g, err := x.serve()
	if err != nil {
		if x.ttl != nil {
			c.store.endTTL(x.ttl)
		}
		return lease.Grant{}, storeError(req, err)
	}
	return g, nil
}

// storeError adds the failed request and its lease to an error.
func storeError(req node.Request, err error) error {
	key := req.Grant.Key
	if req.Verb == node.Create {
		key = req.Key
	}
	return fmt.Errorf("%s lease %s: %w", req.Verb, key, err)
}

// Next decides the fates of the coming requests made with Do, in order.
func (c *Client) Next(fates ...Fate) { c.fates = append(c.fates, fates...) }

// Cut separates the client from the server, silently: packets vanish. With cut
// false it ends that.
func (c *Client) Cut(cut bool) {
	c.cut = cut
	c.store.world.Note(c.name+": store cut", fmt.Sprint(cut))
}

// Deny revokes the permission of the client, and of all later ones of its name,
// or restores it.
func (c *Client) Deny(denied bool) {
	c.store.Deny(c.name, denied)
}

// ExpireToken makes the server forget the client's identity. Its stream ends,
// the server refuses its next request, and the client authenticates again.
func (c *Client) ExpireToken() {
	c.expired = true
	if c.stream != nil {
		c.store.endStream(c.stream)
		c.stream.end(errStoreToken)
	}
}

// Freeze halts the client's process, or resumes it: arrivals wait in line
// meanwhile.
func (c *Client) Freeze(frozen bool) {
	c.frozen = frozen
	if frozen {
		return
	}
	inbox := c.inbox
	c.inbox = nil
	for i, fn := range inbox {
		if c.frozen || c.closed { // by an earlier one
			c.inbox = append(inbox[i:], c.inbox...)
			return
		}
		fn()
	}
}

// arrive delivers an event to the client's process.
func (c *Client) arrive(fn func()) {
	if c.closed {
		return
	}
	if c.frozen {
		c.inbox = append(c.inbox, fn)
		return
	}
	fn()
}

func (c *Client) reachable() bool {
	return !c.cut && (c.opts.Reachable == nil || c.opts.Reachable())
}

func (c *Client) now() time.Time {
	if c.opts.Clock != nil {
		return c.opts.Clock()
	}
	return c.store.world.Now()
}

// latency draws the delay of one way: half to one and a half of the typical.
func (c *Client) latency() time.Duration {
	typical := c.store.opts.Latency
	return typical/2 + world.UpTo(c.rng.latency, typical)
}

// refused returns the reason why the server refuses this client at present, or
// nil.
func (c *Client) refused() error {
	if err := c.store.Unavailable(); err != nil {
		return err
	}
	switch {
	case c.store.denied[c.name]:
		return errStoreDenied
	case c.expired:
		c.expired = false // the client has authenticated by the next request
		return errStoreToken
	}
	return nil
}
