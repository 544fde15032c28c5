package invariants

import (
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/scenarios/check/oracle"
)

// madeDevice describes a WireGuard device that a node has given another key than that of its record.
type madeDevice struct {
	key       dataplane.PublicKey
	published dataplane.PublicKey // in the record at that time; zero: the process knew no record yet
}

// noteMade notes the key with which a node makes a device. A node that has lost the published key cannot give it to
// another device, nor to one that a former process left in userspace. It gives its new key to a device as soon as the
// store has answered the write of the record, so the snapshot that the node knows may still show the former key.
func (n *Node) noteMade(op dataplane.Op) {
	l, ok := op.Object.(dataplane.Link)
	w, is := l.Params.(dataplane.WireGuard)
	if !ok || !is {
		return
	}
	left, _ := n.observed.Links[l.Name].Params.(dataplane.WireGuard)
	if op.Verb != dataplane.Create && w.PublicKey != n.published.key && !left.PublicKey.IsZero() {
		return
	}
	snap := n.client.View().Snapshot
	if snap == nil {
		n.made[l.Name] = madeDevice{key: w.PublicKey}
		return
	}
	for _, r := range snap.Leases {
		if published, _, ok := oracle.WireGuardData(*r); ok && r.Key == n.key && published != w.PublicKey {
			n.made[l.Name] = madeDevice{w.PublicKey, published}
			return
		}
	}
	delete(n.made, l.Name)
}

// newKeys returns the keys that devices got while the record held the key that it still holds.
func (n *Node) newKeys(own lease.Lease) map[string]dataplane.PublicKey {
	keys := map[string]dataplane.PublicKey{}
	published, _, _ := oracle.WireGuardData(own)
	for link, made := range n.made {
		if made.published.IsZero() {
			made.published = published
			n.made[link] = made
		}
		if made.published == published {
			keys[link] = made.key
		}
	}
	return keys
}
