package linearizable

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// keys is the number of leases that all parties ask for.
const keys = 3

func keyOf(i int) lease.Key {
	return lease.Key{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, byte(i), 0}), 24)}
}

// party makes up the requests of one client.
type party struct {
	id     int
	rng    *rand.Rand
	ttl    time.Duration
	values int                       // number of values that it wrote
	grants map[lease.Key]lease.Grant // the last ones that it got, still valid or not
}

func newParty(id int, rng *rand.Rand) *party {
	return &party{id: id, rng: rng, ttl: 8 * time.Second, grants: map[lease.Key]lease.Grant{}}
}

// draw draws a request: mostly one about a grant that the client knows, which may
// have ended long ago.
func (p *party) draw(view lease.View) node.Request {
	i := p.rng.IntN(keys)
	key := keyOf(i)
	g, known := p.grants[key]
	if adopted, ok := p.own(view.Snapshot, key); ok && p.rng.IntN(2) == 0 {
		g, known = adopted, true
	}
	if !known || p.rng.IntN(5) == 0 {
		return node.Request{Verb: node.Create, Key: key, Attrs: p.value(), TTL: p.ttl}
	}
	switch p.rng.IntN(7) {
	case 0, 1:
		return node.Request{Verb: node.Update, Grant: g, Attrs: p.value(), TTL: p.ttl}
	case 2:
		return node.Request{Verb: node.Release, Grant: g}
	case 3:
		to := keyOf((i + 1 + p.rng.IntN(keys-1)) % keys)
		return node.Request{Verb: node.Move, Grant: g, Key: to, Attrs: p.value(), TTL: p.ttl}
	default:
		return node.Request{Verb: node.Renew, Grant: g}
	}
}

// value returns attributes that no request has written before.
func (p *party) value() lease.Attrs {
	p.values++
	return lease.Attrs{PublicIP: netip.AddrFrom4([4]byte{10, byte(p.id), byte(p.values >> 8), byte(p.values)})}
}

// own finds a record of the client in its view of the store, as a node does that
// has not learnt the outcome of its request.
func (p *party) own(snap *lease.Snapshot, key lease.Key) (lease.Grant, bool) {
	if snap == nil {
		return lease.Grant{}, false
	}
	for _, l := range snap.Leases {
		if l.Key == key && l.Attrs.PublicIP.As4()[1] == byte(p.id) {
			return lease.Grant{Lease: *l, TTL: p.ttl}, true
		}
	}
	return lease.Grant{}, false
}

// learn notes an answer.
func (p *party) learn(req node.Request, g lease.Grant, err error) {
	if err == nil && req.Verb != node.Release {
		p.grants[g.Key] = g
	}
}
