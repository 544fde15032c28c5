package store

import (
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// Overwrite is Do for a Renew or an Update that writes the record as upstream
// does: it overwrites any owner of the key (interop E5), and gives a reservation
// a TTL (interop E4). Planted defects use it.
func (c *Client) Overwrite(req node.Request, done func(node.Requested)) {
	x := c.exchange(req, done)
	x.act = func() (g lease.Grant, err error) {
		if err := c.refused(); err != nil {
			return g, err
		}
		t := c.store.grant(req.TTL)
		c.store.by(c.name, func() {
			g.Lease = c.store.put(c.store.subnetKey(req.Grant.Key), lease.EncodeAttrs(req.Attrs), t).lease
		})
		g.TTL, g.Expires = t.length, x.began.Add(t.length)
		return g, nil
	}
	x.decide()
}
