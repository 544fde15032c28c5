package store

import (
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// doubtTime bounds the search for a record of unknown outcome; doubtEvery is the pause between two looks.
const (
	doubtTime  = time.Minute
	doubtEvery = time.Second
)

// doubts are the keys whose Create has an unknown outcome. A client of servers knows no TTL that it
// could end, so it deletes the record when it appears, unless the node takes it over first.
type doubts struct {
	keys  map[lease.Key]*doubt
	asked map[lease.Key]int // requests under way that may put a record there
}

// doubt is about one Create.
type doubt struct {
	req  node.Request
	ends time.Time
}

// ttl returns the TTL that the doubtful Create asked for; false if the key is not in doubt.
func (d *doubts) ttl(key lease.Key) (time.Duration, bool) {
	if of := d.keys[key]; of != nil {
		return of.req.TTL, true
	}
	return 0, false
}

// count notes that a request has begun or ended.
func (d *doubts) count(req node.Request, by int) {
	if d.asked == nil {
		d.asked = map[lease.Key]int{}
	}
	switch req.Verb {
	case node.Create:
		d.asked[req.Key] += by
	case node.Renew, node.Update:
		d.asked[req.Grant.Key] += by
	case node.Move:
		d.asked[req.Grant.Key] += by
		d.asked[req.Key] += by
	}
}

func (d *doubts) settle(key lease.Key) { delete(d.keys, key) }

// doubt begins the search for the record of a Create without an answer.
func (c *Client) doubt(req node.Request) {
	d := &c.remote.doubts
	if d.keys == nil {
		d.keys = map[lease.Key]*doubt{}
	}
	of := &doubt{req: req, ends: c.store.world.Now().Add(doubtTime)}
	d.keys[req.Key] = of
	c.clean(of)
}

// clean deletes the record of a doubt once the client sees it.
func (c *Client) clean(of *doubt) {
	key := of.req.Key
	c.store.world.After(doubtEvery, c.name+": store doubt", func() {
		d := &c.remote.doubts
		switch l := c.record(key); {
		case c.closed || d.keys[key] != of:
			return
		case !c.store.world.Now().Before(of.ends):
			d.settle(key)
			return
		case c.frozen || d.asked[key] > 0 || l == nil || l.Reserved() || !l.Attrs.Equal(of.req.Attrs):
			c.clean(of)
		default:
			release := node.Request{Verb: node.Release, Grant: lease.Grant{Lease: *l}}
			c.doServers(release, func(r node.Requested) {
				if r.Err != nil {
					c.clean(of)
				} // else the doubt lasts until its end, as a renewal has to say that the record is gone
			})
		}
	})
}

// record returns the lease of a key in the view; nil if there is none.
func (c *Client) record(key lease.Key) *lease.Lease {
	if c.view.Snapshot == nil {
		return nil
	}
	for _, l := range c.view.Snapshot.Leases {
		if l.Key == key {
			return l
		}
	}
	return nil
}
