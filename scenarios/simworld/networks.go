package simworld

import (
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/networks"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/scenarios/lang"
)

var _ lang.Manifold = (*World)(nil)

// OfNetwork implements [lang.Manifold].
func (w *World) OfNetwork(top lang.Topology) (lang.World, error) {
	o := &World{
		World: w.World, network: w.network, top: top, began: w.began, segments: w.segments, router: w.router,
		outside: w.outside, cloud: w.cloud,
		nodes: map[string]*simNode{}, defects: w.defects, apart: w.apart, worlds: w.worlds,
	}
	if err := o.newStore(); err != nil {
		return nil, err
	}
	*w.worlds = append(*w.worlds, o)
	for i, name := range top.NodeNames() {
		first := w.nodes[name]
		n := &simNode{Host: first.Host, world: o, index: i, simUplink: first.simUplink, crew: first.crew}
		n.install()
		o.nodes[name] = n
	}
	return o, nil
}

// storeOptions returns the options of the network's store: several networks share one etcd.
func (w *World) storeOptions(kubeConfig string) store.Options {
	o := store.Options{Nodes: kubeConfig}
	if kubeConfig == "" {
		o.History = 1
	}
	if w.top.Network != "" {
		o.Prefix = "/coreos.com/network/" + w.top.Network
	}
	if len(*w.worlds) > 0 && (*w.worlds)[0] != w {
		o.Beside = (*w.worlds)[0].storage
	}
	return o
}

// newCrew installs a daemon that runs all networks of the topology.
func (w *World) newCrew(n *simNode) *daemon.Crew {
	rules := networks.Crew{Watch: w.top.Watch, ExitOnLoss: w.top.ExitOnLoss}
	if !rules.Watch {
		for _, one := range w.top.Networks {
			rules.Only = append(rules.Only, one.Name)
		}
	}
	return daemon.NewCrew(n.Host, rules, func() (names []string, synced bool) {
		if !n.reachesStore() {
			return nil, false
		}
		for _, o := range *w.worlds {
			if o.storage.Unavailable() != nil {
				return nil, false
			}
			if _, holds := o.storage.Get("config"); holds {
				names = append(names, o.top.Network)
			}
		}
		return names, true
	})
}

// Cross implements [lang.Manifold].
func (w *World) Cross(from string, other lang.World, to string, f cidr.Family) (lang.PingResult, error) {
	o, ok := other.(*World)
	if !ok {
		return lang.PingResult{}, fmt.Errorf("%s is no world of the simulator", other.Name())
	}
	a, err := w.pod(from)
	if err != nil {
		return lang.PingResult{}, err
	}
	b, err := o.pod(to)
	if err != nil {
		return lang.PingResult{}, err
	}
	p := a.Ping(b.Addrs[f], kernel.PingOptions{Timeout: 300 * time.Millisecond})
	w.World.RunUntil(p.Done, time.Minute)
	r := lang.PingResult{OK: p.Delivered, Source: p.SourceSeen, WantSource: a.Addrs[f], Drop: string(p.Drop)}
	return r, w.World.Err()
}

// ownRules returns the rules of the node's network alone, without those that keep the packets of networks
// apart: the others' packets show whether they are in place.
func (n *simNode) ownRules(have *dataplane.State) *dataplane.State {
	snap := n.world.storage.Snapshot()
	network, err := config.Parse(snap.Config.Data)
	if err != nil {
		return have
	}
	own := dataplane.NewState()
	for _, c := range have.Chains {
		rules, err := c.Rules.List()
		if err != nil {
			return have
		}
		kept := slices.DeleteFunc(rules, func(r dataplane.Rule) bool {
			about := r.From.Prefix
			if !about.IsValid() {
				about = r.To.Prefix
			}
			p := network.Of(c.Family).Network
			return r.Verdict == dataplane.Drop || about.IsValid() && !(p.IsValid() && cidr.Contains(p, about))
		})
		if len(kept) > 0 {
			c.Rules = dataplane.MakeRules(kept...)
			own.AddChain(c)
		}
	}
	return own
}
