package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/reconcile"
)

// handover is the handing over of device names to the operator's commands, which may make a device with the name of
// a previous backend's. Before any command runs, the node removes its own device of such a name. From then on the name
// is the operator's.
type handover struct {
	// saved are the devices that the state file names and that no backend of this run has made. The file may be older
	// than the handing over: a daemon can be killed before it writes another one.
	saved map[string]bool
}

// isOperators reports whether commands of the config name a device. Then an operator's command makes it, such as
// those of upstream's wireguard sample, whose device has the name of the backend wireguard's.
func (n *Node) isOperators(device string) bool {
	b, ok := n.transition.Set().PresentBackend().(backend.Commander)
	return ok && b.Mentions(device)
}

// toHandOver returns the node's own device names that commands of the config mention. The commands wait until there are
// none.
func (n *Node) toHandOver() []string {
	names := slices.Sorted(maps.Keys(n.host.links))
	return slices.DeleteFunc(names, func(name string) bool { return !n.isOperators(name) })
}

// handOver returns the deletes of the devices whose names the operator's commands use, and hands over the names of
// which the last look has found no device. It returns false while it does not know whose the devices are. It does not
// wait for the lease, which may need the output of a command.
func (n *Node) handOver() (deletes []dataplane.Op, ok bool) {
	h := &n.host
	names := n.toHandOver()
	own := n.ownership()
	own.Links = map[string]bool{}
	for _, name := range names {
		if h.handover.saved[name] && !n.commands.looked {
			return nil, false
		}
		_, exists := h.have.Links[name]
		if exists && !(h.handover.saved[name] && n.hasRunWith(name)) {
			own.Links[name] = true
			continue
		}
		delete(h.links, name)
		delete(h.handover.saved, name)
	}
	if len(own.Links) == 0 {
		return nil, true
	}
	n.once(Info, "handing-over", fmt.Sprintf("removing the node's own %s first: commands of the config use this name",
		strings.Join(slices.Sorted(maps.Keys(own.Links)), ", ")))
	plan := reconcile.Diff(dataplane.NewState(), h.have, reconcile.Options{Own: own, Prune: true, Denied: h.denied})
	return slices.DeleteFunc(plan.Ops, func(op dataplane.Op) bool {
		switch o := op.Object.(type) {
		case dataplane.Link:
			return !own.Links[o.Name]
		case dataplane.Proxy:
			return !own.Links[o.Link]
		}
		return true // the kernel deletes the objects on a device with it
	}), true
}

// hasRunWith reports whether a command on record, which may have run, mentions a device. No command has begun before
// the name was handed over.
func (n *Node) hasRunWith(device string) bool {
	for _, c := range n.commands.have.Commands.All {
		if c.Mentions(device) {
			return true
		}
	}
	return false
}
