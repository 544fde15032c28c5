package scenarios

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/sim"
)

// newStore makes the datastore of the topology, watched from its first write.
func (w *SimWorld) newStore() error {
	if !w.top.Kube {
		w.storage = w.World.NewStore(sim.StoreOptions{})
		w.invariants = w.watch()
		return w.storage.Put("config", w.top.Config, 0)
	}
	w.storage = w.World.NewStore(sim.StoreOptions{Nodes: w.top.Config})
	w.invariants = w.watch()
	w.invariants.takeConfig(w.top.Config)
	w.storage.OnNodeWrite(w.invariants.wroteNode)
	return w.registerNodes()
}

// registerNodes lets kubelets do so, and the controller manager give those a
// pod CIDR that have none.
func (w *SimWorld) registerNodes() error {
	for _, name := range w.top.nodeNames() {
		if err := w.registerNode(name); err != nil {
			return err
		}
	}
	return nil
}

func (w *SimWorld) registerNode(name string) error {
	if n, exists := w.storage.Node(name); exists && n.PodCIDRs != "" {
		return nil
	}
	return w.storage.PutNode(name, w.podCIDRs(name))
}

// podCIDRs are those that the controller manager has for a node.
func (w *SimWorld) podCIDRs(name string) string {
	number := slices.Index(w.top.nodeNames(), name) + 1
	if moved, ok := w.podCIDR[name]; ok {
		number = moved
	}
	var key lease.Key
	for _, f := range w.top.Families {
		if f == cidr.V4 {
			key.V4 = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, byte(number), 0}), 24)
		} else {
			key.V6 = netip.MustParsePrefix(fmt.Sprintf("fd00:10:5:%x::/64", number))
		}
	}
	return sim.NodeCIDRs(key)
}

// movePodCIDR gives a node another pod CIDR from its next registration on, one
// that nobody ever had.
func (w *SimWorld) movePodCIDR(name string) {
	if w.podCIDR == nil {
		w.podCIDR = map[string]int{}
	}
	w.moves++
	w.podCIDR[name] = w.top.Nodes + w.moves
}

// nodeRecord is a lease of a node object as scenarios see records. That it
// never expires needs no mention.
func nodeRecord(l lease.Lease) Record {
	return Record{Name: l.Key.String(), Value: string(lease.EncodeAttrs(l.Attrs)), Modified: l.ModRevision}
}

// wroteNode follows a change of a node object: a daemon writes its own and no
// other, and in it no more than annotations.
func (i *invariants) wroteNode(w sim.NodeWrite) {
	i.changes++
	switch {
	case w.New != nil:
		if i.podCIDRs == nil {
			i.podCIDRs = map[string]bool{}
		}
		i.podCIDRs[w.Name+" "+w.New.PodCIDRs] = true
	}
	switch {
	case w.Client == "":
	case w.Name != w.Client:
		i.broken("own-records-only", "%s writes to the node object of %s", w.Client, w.Name)
	case w.Old == nil || w.New == nil || w.Old.PodCIDRs != w.New.PodCIDRs || w.Old.UID != w.New.UID:
		i.broken("own-records-only", "%s changes more of its node object than annotations", w.Client)
	}
}

// checkAssigned holds a node to the subnets that it was assigned.
func (i *invariants) checkAssigned(n *watched, key lease.Key) {
	if i.world.top.Kube && !i.podCIDRs[n.name+" "+sim.NodeCIDRs(key)] {
		i.broken("subnet-assigned", "%s takes %s, which never was its pod CIDR", n.name, strings.ReplaceAll(key.String(), "&", " and "))
	}
}
