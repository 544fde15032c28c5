package simworld

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/nodelease"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/scenarios/check/invariants"
	"github.com/flanneld/flannel/scenarios/lang"
)

// newStore creates the topology's datastore, watched from its first write.
func (w *World) newStore() error {
	kubeConfig := ""
	if w.top.Kube {
		kubeConfig = w.top.Config
	}
	w.storage = store.New(w.World, w.storeOptions(kubeConfig))
	w.invariants = invariants.Watch(invariants.Options{
		World: w.World, Store: w.storage, Config: kubeConfig, ExitOnLoss: w.top.ExitOnLoss, Masquerade: w.top.Firewalled(),
		IPForward: w.top.IPForward, Apart: w.apart, Network: w.top.Network,
	})
	for i := range w.top.Servers {
		w.servers = append(w.servers, w.storage.NewServer(lang.ServerName(i)))
	}
	if !w.top.Kube {
		return w.storage.Put("config", w.top.Config, 0)
	}
	return w.registerNodes()
}

// registerNodes registers all kubelets, each with the pod CIDR of the controller
// manager.
func (w *World) registerNodes() error {
	for _, name := range w.top.NodeNames() {
		if err := w.RegisterNode(name); err != nil {
			return err
		}
	}
	return nil
}

// RegisterNode implements [lang.NodeObjects].
func (w *World) RegisterNode(name string) error {
	if n, exists := w.storage.Node(name); exists && n.PodCIDRs != "" {
		return nil
	}
	return w.storage.PutNode(name, w.podCIDRs(name))
}

// podCIDRs returns the pod CIDRs that the controller manager has for a node.
func (w *World) podCIDRs(name string) string {
	number := slices.Index(w.top.NodeNames(), name) + 1
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
	return store.NodeCIDRs(key)
}

// RegisterWithoutPodCIDR implements [lang.NodeObjects].
func (w *World) RegisterWithoutPodCIDR(name string) error { return w.storage.PutNode(name, "") }

// DeleteNode implements [lang.NodeObjects].
func (w *World) DeleteNode(name string) error { return w.storage.DeleteNode(name) }

// AnnotateNode implements [lang.NodeObjects].
func (w *World) AnnotateNode(name string, change func(*nodelease.Node)) error {
	return w.storage.AnnotateNode(name, change)
}

// NodeObject implements [lang.NodeObjects].
func (w *World) NodeObject(name string) (nodelease.Node, bool) { return w.storage.Node(name) }

// MovePodCIDR implements [lang.NodeObjects].
func (w *World) MovePodCIDR(name string) {
	if w.podCIDR == nil {
		w.podCIDR = map[string]int{}
	}
	w.moves++
	w.podCIDR[name] = w.top.Nodes + w.moves
}

// nodeRecord returns a lease on a Kubernetes node as a record of a scenario. It
// does not mention that such a lease never expires.
func nodeRecord(l lease.Lease) lang.Record {
	return lang.Record{Name: l.Key.String(), Value: string(lease.EncodeAttrs(l.Attrs)), Created: l.CreateRevision,
		Modified: l.ModRevision}
}

// Current implements [lang.Informed].
func (n *simNode) Current() bool {
	client := n.daemon.Client()
	status, err := n.Status()
	return err == nil && client != nil && client.Current() && status.Revision == client.View().Snapshot.Revision
}
