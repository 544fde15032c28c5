package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// StoreClientOptions fix how a client sees the world. Nil: the defaults.
type ClientOptions struct {
	// Reachable tells whether packets get to the server and back at present;
	// default always.
	Reachable func() bool
	// Clock is what the client's process takes for the time; default the world's.
	Clock func() time.Time
}

// StoreClient is one process's connection to a [Store].
//
// As a [lease.Store] it answers at once, since there is but one thread; its
// View follows the server through a stream. [StoreClient.Do] is the form with
// a network in between, with delays, losses and answers that come too late.
type Client struct {
	store *Store
	name  string
	opts  ClientOptions
	label clientLabels
	rng   clientChances

	view     lease.View
	changed  chan struct{}
	onChange func()

	nodes nodeClient    // of a store of nodes
	known *storeVersion // the newest version taken
	first int64         // the revision of the first one

	reread bool // a stream cannot follow known: everything has to be read again

	stream  *storeStream // nil: not connected
	got     uint64       // batches taken from stream
	attempt int          // dials in a row that failed
	dialing uint64       // the dial that is under way; answers to others are void
	redial  *world.Event
	ping    *world.Event

	closed bool
	frozen bool
	inbox  []func() // what arrived while frozen
	fates  []StoreFate

	cut     bool // partitioned off by command
	expired bool // its auth token is no longer good
}

var _ lease.Store = (*Client)(nil)

// clientLabels name every event of the client.
type clientLabels struct{ up, down, timeout, ping, connect, batch string }

func newClientLabels(prefix string) clientLabels {
	return clientLabels{
		up: prefix + "request", down: prefix + "answer", timeout: prefix + "timeout",
		ping: prefix + "ping", connect: prefix + "connect", batch: prefix + "batch",
	}
}

// clientChances are the client's streams of chance, one a subject.
type clientChances struct{ latency, request, watch, redial, ping *rand.Rand }

func newClientChances(w *world.World, prefix string) clientChances {
	return clientChances{
		latency: w.Rand(prefix + "latency"), request: w.Rand(prefix + "request"), watch: w.Rand(prefix + "watch"),
		redial: w.Rand(prefix + "redial"), ping: w.Rand(prefix + "ping"),
	}
}

// Client connects a process to the store, under a name of its host's.
func (s *Store) Client(name string, opts ClientOptions) *Client {
	c := &Client{store: s, name: name, opts: opts, changed: make(chan struct{}, 1)}
	c.label = newClientLabels(name + ": store ")
	c.rng = newClientChances(s.world, "store/"+name+"/")
	c.nodes = s.newNodeClient(name)
	c.view.Assigned = c.nodes.assigned
	c.schedulePing()
	c.connect()
	return c
}

// Close ends the connection. Nothing is called back any more, but requests
// that are on their way still reach the server.
func (c *Client) Close() {
	c.closed = true
	c.redial.Cancel()
	c.ping.Cancel()
	if c.stream != nil {
		c.store.endStream(c.stream)
		c.stream = nil
	}
}

// View returns the latest knowledge of the store.
func (c *Client) View() lease.View { return c.view }

// Changed receives a value after View has changed.
func (c *Client) Changed() <-chan struct{} { return c.changed }

// OnChange lets fn happen whenever View has changed: Changed in virtual time.
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

// Release deletes the own record, at once.
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
	x := exchange{client: c, req: req, began: c.now()}
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

// storeError says which request of which lease failed.
func storeError(req node.Request, err error) error {
	key := req.Grant.Key
	if req.Verb == node.Create {
		key = req.Key
	}
	return fmt.Errorf("%s lease %s: %w", req.Verb, key, err)
}

// Next decides the fates of the coming requests made with Do, in order.
func (c *Client) Next(fates ...StoreFate) { c.fates = append(c.fates, fates...) }

// Cut separates the client from the server, silently: packets vanish. Or it
// ends that.
func (c *Client) Cut(cut bool) {
	c.cut = cut
	c.store.world.Note(c.name+": store cut", fmt.Sprint(cut))
}

// BreakStream ends the client's stream of changes.
func (c *Client) BreakStream() {
	if c.stream != nil {
		c.store.endStream(c.stream)
		c.stream.end(errStoreBroken)
	}
}

// Deny takes the permission away from the client, and from all later ones of
// its name, or gives it back.
func (c *Client) Deny(denied bool) {
	c.store.Deny(c.name, denied)
}

// ExpireToken makes the server forget who the client is. Its stream ends, and
// its next request is refused, whereupon it authenticates anew.
func (c *Client) ExpireToken() {
	c.expired = true
	if c.stream != nil {
		c.store.endStream(c.stream)
		c.stream.end(errStoreToken)
	}
}

// Freeze halts the client's process, or lets it go on: what arrives meanwhile
// waits in line.
func (c *Client) Freeze(frozen bool) {
	c.frozen = frozen
	if frozen {
		return
	}
	inbox := c.inbox
	c.inbox = nil
	for i, fn := range inbox {
		if c.frozen || c.closed { // by one of those before
			c.inbox = append(inbox[i:], c.inbox...)
			return
		}
		fn()
	}
}

// arrive hands something to the client's process.
func (c *Client) arrive(fn func()) {
	switch {
	case c.closed:
	case c.frozen:
		c.inbox = append(c.inbox, fn)
	default:
		fn()
	}
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

// refused is why the server will not serve this client at present, or nil.
func (c *Client) refused() error {
	if err := c.store.unavailable(); err != nil {
		return err
	}
	switch {
	case c.store.denied[c.name]:
		return errStoreDenied
	case c.expired:
		c.expired = false // the client will have seen to it by the next time
		return errStoreToken
	}
	return nil
}
