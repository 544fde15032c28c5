package main

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/agent"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/networks"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/internal/hostpaths"
)

// again is the pause before a network that has ended begins anew (interop 1.7).
const again = time.Second

// checkNetworks reads --networks.
func (o *options) checkNetworks() (err error) {
	if o.networkList == "" {
		return nil
	}
	if o.kube.On {
		return errors.New("--networks: Kubernetes has one network, so leave out --networks or --kube-subnet-mgr")
	}
	if o.servers.remote != "" || o.servers.listen != "" {
		return errors.New("--networks: several networks need etcd itself, so leave out --networks, or --remote and --listen")
	}
	if o.subnetDir == "" {
		return errors.New("--subnet-dir is empty; it must name a directory")
	}
	o.networks, err = networks.ParseNames(o.networkList)
	return err
}

// ofNetwork returns the options of a network's node.
func (o *options) ofNetwork(name string) *options {
	own := *o
	own.etcd.Prefix = path.Join(o.etcd.Prefix, name)
	own.subnetFile = filepath.Join(o.subnetDir, name+".env")
	if o.stateFile != "" && o.stateFile != hostpaths.StateFile {
		own.stateFile += "." + name
	}
	return &own
}

// besides holds what the networks of a process share.
type besides struct {
	endpoints []string
	host      *networks.Host
	filter    map[string]driver.Lane // of each network; nil: there is no firewall
}

// runNetworks runs a node for each network until ctx or one of them ends.
func (o *options) runNetworks(ctx context.Context, nodes []*agent.Health) node.Exit {
	ctx, endpoints, end, err := o.etcdEndpoints(ctx)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer end()
	shared := besides{endpoints: endpoints, host: networks.NewHost(o.networks)}
	if lane := openFirewall(ctx); lane != nil {
		shared.filter = agent.ShareFilter(ctx, lane, o.networks)
		defer func() { closing("firewall", lane.Close()) }()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	exits := make(chan node.Exit, len(nodes))
	reports := newSystemd(nodes)
	for i, h := range nodes {
		running.Go(func() {
			exits <- o.ofNetwork(h.Network).runNetwork(ctx, shared, h, reports.of(i))
			cancel() // the process ends as a whole
		})
	}
	exit := <-exits
	running.Wait()
	return orDied(ctx, exit)
}

// runNetwork runs the node of a network, and a new one when that has removed its network
// or cannot go on, until ctx ends or a lost lease has to end the process.
func (o *options) runNetwork(
	ctx context.Context, shared besides, health *agent.Health, report func(node.Pulse),
) node.Exit {
	name := health.Network
	defer o.serveSocket(ctx, health)()
	store, err := etcd.Open(ctx, o.storeOptions(shared.endpoints))
	if err != nil {
		return interrupted(ctx, err)
	}
	defer store.Close()
	options := agent.Options{
		Network: name, Store: agent.Beside(ctx, shared.host, name, store), Health: health, OnPulse: report,
	}
	if shared.filter != nil {
		options.Lanes[node.FirewallLane] = shared.filter[name]
	}
	for {
		exit := o.runNode(ctx, options)
		switch {
		case ctx.Err() != nil || o.onLeaseLost.value == onLossExit && exit.Status != statusOK:
			return exit
		case exit.Removed:
			klog.Infof("network %s: it waits for a config", name)
			shared.host.Gone(name)
			continue
		}
		klog.Errorf("network %s: %s; it begins again in %s", name, exit.Reason, again)
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}
