package node

import (
	"fmt"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// refuseLeftOut refuses, after a restart, a network that leaves out the subnet that the datastore assigns to this node,
// if the config of the last run contains it: a wrong digit in the ConfigMap would remove all routes of a node that
// restarts. The view then counts as no answer, so that the saved leases stay in force. A running store refuses such a
// config itself, and goes on following the nodes.
func (n *Node) refuseLeftOut(view lease.View) lease.View {
	s := &n.store
	s.leftOut = nil
	isStart := s.snap == nil || s.stale
	if !isStart || s.saved == nil || view.Snapshot == nil || view.Assigned == nil || !view.Assigned.Key.IsValid() {
		return view
	}
	key := view.Assigned.Key
	if contains(s.saved.Snapshot.Config, key) != nil {
		return view
	}
	if err := contains(view.Snapshot.Config, key); err != nil {
		s.leftOut = fmt.Errorf("the network config does not contain the pod CIDR %s of this node, and that of the last run "+
			"does: %w; correct the config", key, err)
		view.Snapshot, view.Synced = nil, false
		n.once(Error, "config-refused", s.leftOut.Error())
	}
	return view
}

// contains returns an error if the network of a config does not contain a subnet, or cannot be read.
func contains(doc lease.Document, key lease.Key) error {
	network, err := config.ParseAssigned(doc.Data)
	if err != nil {
		return err
	}
	return alloc.Inside(network, key)
}
