package backend

import (
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// KeyExchanger is a Backend whose devices exchange keys before the first packet. A peer
// takes no packet from this node before it knows the node's key.
type KeyExchanger interface {
	// PeerKey returns the key of the object that stands for a record in one family. It
	// returns false if the record cannot be served.
	PeerKey(*lease.Attrs, cidr.Family) (dataplane.WGPeerKey, bool)
}
