package node

import (
	"maps"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// settleKeys notes which devices keep a former key, and programs a new key as soon as the record holds it.
func (n *Node) settleKeys() {
	kept := n.keptKeys()
	if !maps.Equal(kept, n.host.kept) {
		n.host.kept = kept
		n.hostLane().outdated(n.now)
	}
}

// keptKeys returns the keys that WireGuard devices keep, by device, although the node has another key by now. Peers
// know a device by the key in the record. With a new key it reaches no peer until they have read that, so while
// the datastore takes no write the device keeps the former one. The node can no longer give that to another device.
func (n *Node) keptKeys() map[string]dataplane.PublicKey {
	if !n.host.looked || n.host.have == nil {
		return nil
	}
	var kept map[string]dataplane.PublicKey
	record := n.knownRecord()
	for _, k := range n.transition.Set().PublishedKeys(&record) {
		present, _ := n.host.have.Links[k.Link].Params.(dataplane.WireGuard)
		if k.Public != present.PublicKey || k.Public == n.host.facts.Keys[dataplane.WireGuardKey].Public {
			continue
		}
		if kept == nil {
			kept = map[string]dataplane.PublicKey{}
		}
		kept[k.Link] = k.Public
	}
	return kept
}

// knownRecord returns the attributes by which peers know the node: those of its record, or of the last run's record
// while the node has none.
func (n *Node) knownRecord() lease.Attrs {
	switch {
	case n.lease.grant != nil:
		return n.lease.grant.Attrs
	case n.store.saved != nil:
		return n.store.saved.Self.Attrs
	}
	return lease.Attrs{}
}
