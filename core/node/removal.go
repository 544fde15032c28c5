package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/identity"
	"github.com/flanneld/flannel/core/reconcile"
)

// removal removes all objects and files of a named network whose config has gone from
// the datastore (interop 3.9: such a network exists while its config key does), or which
// begins anew. The lease stays and runs out, so a network that comes back has the same
// subnets. The zero value has not begun.
type removal struct {
	nothing *dataplane.State // what the host must hold; nil: the removal has not begun
	why     string
	files   []File // still to remove, in order
}

func (r *removal) begun() bool { return r.nothing != nil }

// noticeRemoval begins the removal of a network whose config another program has deleted, or which begins
// anew. A datastore that has lost its data, or was restored from a backup, has removed nothing.
func (n *Node) noticeRemoval() {
	s, snap := &n.network, n.store.snap
	if n.removal.begun() || n.store.view.Beside == nil || snap == nil {
		return
	}
	if n.store.view.Beside.Anew {
		n.beginAnew()
		return
	}
	if snap.Config.Revision != 0 {
		s.with = snap
		return
	}
	if !s.known && !n.useSavedConfig() {
		return
	}
	if !n.wasDeleted(snap) {
		s.history = 0 // until a config comes into force again
	}
	if s.history == 0 || snap.History != s.history || !n.synced() {
		return
	}
	n.beginRemoval("the datastore no longer holds the config of this network")
}

// beginAnew begins the removal of a network that swaps with others of the host. The others wait for its end,
// so a node without any config ends at once: it has nothing on the host.
func (n *Node) beginAnew() {
	if !n.synced() {
		return
	}
	if !n.network.known && !n.useSavedConfig() {
		n.effects.Exit = &Exit{Removed: true, Reason: "the network has nothing to remove before it begins anew"}
		return
	}
	n.beginRemoval(n.store.view.Beside.Refused.Error())
}

func (n *Node) beginRemoval(why string) {
	n.event(Warning, "network-removed", why+"; removing its objects and files from the host")
	n.removal = removal{nothing: dataplane.NewState(), why: why, files: []File{SubnetFile, StateFile}}
	n.host.standing, n.files.subnet = lease.Key{}, nil
	for _, id := range []LaneID{HostLane, FirewallLane} { // the others notice the desired state
		n.lanes[id].retarget(n.now)
	}
}

// wasDeleted reports whether the config in force is certain to have been deleted. Either a watch saw
// the delete, or the datastore still holds the node's own record of the time before. An absence alone
// is no sign: a datastore that lost its data may have passed the revision of the config since, and with
// the same settings an etcd has the same identity again.
func (n *Node) wasDeleted(snap *lease.Snapshot) bool {
	return snap.Config.AbsentAt > n.network.inForce.Revision && (snap.Config.Deleted || n.keepsOwn(snap))
}

// keepsOwn reports whether a snapshot holds the node's own record as it was beside the config. Records
// of peers are no sign: they write them again after a loss, perhaps at their former revisions.
func (n *Node) keepsOwn(snap *lease.Snapshot) bool {
	before := n.network.with
	if before == nil {
		before = &n.store.saved.Snapshot
	}
	return slices.ContainsFunc(before.Leases, func(was *lease.Lease) bool {
		return n.identity().Owned(was) && slices.ContainsFunc(snap.Leases, func(is *lease.Lease) bool {
			return is.Key == was.Key && is.CreateRevision == was.CreateRevision && identity.SameOwner(&is.Attrs, &was.Attrs)
		})
	})
}

// followRemoval removes the subnet file first, since no pod may be added any more, and
// the state file last: a restart goes on with the removal. Then it ends the node.
func (n *Node) followRemoval() {
	n.host.want = wantCache{state: n.removal.nothing, snap: n.store.snap}
	for _, l := range n.lanes {
		n.followLane(l)
	}
	f, r := &n.files, &n.removal
	if f.busy || n.now.Before(f.retryAt) {
		return
	}
	f.retryAt = time.Time{}
	if len(r.files) == 0 {
		n.event(Info, "network-gone", "nothing of this network is left on the host")
		n.effects.Exit = &Exit{Removed: true, Reason: "the network has been removed"}
		return
	}
	if r.files[0] != StateFile || n.allGone() {
		f.busy, f.writing = true, []Write{{File: r.files[0], Remove: true}}
		n.effects.Writes = f.writing
	}
}

// allGone reports whether no lane has objects of the network any more.
func (n *Node) allGone() bool {
	for _, l := range n.lanes {
		if l.busy || !l.clean {
			return false
		}
	}
	return true
}

// removedFiles takes note of the removed files.
func (n *Node) removedFiles(writes []Write) {
	for _, w := range writes {
		if r := &n.removal; w.Remove && len(r.files) > 0 && r.files[0] == w.File && n.files.errs[w.File] == nil {
			r.files = r.files[1:]
		}
	}
}

// planRemoval returns the deletes of all objects that the node owns on the host.
func (n *Node) planRemoval() []dataplane.Op {
	h := &n.host
	plan := reconcile.Diff(n.removal.nothing, h.have, reconcile.Options{
		Own: reconcile.Ownership{Links: h.links, Networks: h.networks}, Prune: true, Denied: h.denied,
	})
	return plan.Ops
}

// removalReason says why a node that removes its network is not ready.
func (n *Node) removalReason() string {
	return fmt.Sprintf("%s; still to remove: %d files, objects: %t", n.removal.why, len(n.removal.files), !n.allGone())
}
