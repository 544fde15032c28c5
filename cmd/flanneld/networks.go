package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/agent"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/networks"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/drivers/remote"
	"github.com/flanneld/flannel/internal/hostpaths"
)

// several reports whether the process may run several networks (interop 1.7: multi-network mode).
func (o *options) several() bool { return o.networkList != "" || o.watchNetworks }

// checkNetworks reads --networks.
func (o *options) checkNetworks() (err error) {
	if !o.several() {
		return nil
	}
	flag := "--networks"
	if o.networkList == "" {
		flag = "--watch-networks"
	}
	if o.kube.On {
		return fmt.Errorf("%s: Kubernetes has one network, so leave out %s or --kube-subnet-mgr", flag, flag)
	}
	if o.servers.listen != "" {
		return fmt.Errorf("%s: a server serves all networks, so leave out %s", flag, flag)
	}
	if o.servers.Servers != "" {
		if !strings.HasSuffix(o.servers.Prefix, "/_") {
			return fmt.Errorf("--remote-prefix is %s; with %s it must end with /_, in place of which "+
				"the names come", o.servers.Prefix, flag)
		}
	}
	if o.subnetDir == "" {
		return errors.New("--subnet-dir is empty; it must name a directory")
	}
	if o.networkList != "" {
		o.networks, err = networks.ParseNames(o.networkList)
	}
	return err
}

// ofNetwork returns the options of a network's node.
func (o *options) ofNetwork(name string) *options {
	own := *o
	own.etcd.Prefix = path.Join(o.etcd.Prefix, name)
	own.servers.Prefix = strings.TrimSuffix(o.servers.Prefix, "_") + name
	own.subnetFile = filepath.Join(o.subnetDir, name+".env")
	if o.stateFile != "" && o.stateFile != hostpaths.StateFile {
		own.stateFile += "." + name
	}
	return &own
}

// besides holds what the networks of a process share.
type besides struct {
	endpoints []string // of etcd; nil: the leases are at servers
	nodes     *agent.Roster
	host      *networks.Host
	filter    *agent.SharedFilter // nil: there is no firewall
	systemd   *systemd
}

// runNetworks runs a node for each network until ctx or one of them ends.
func (o *options) runNetworks(ctx context.Context, nodes *agent.Roster) node.Exit {
	var endpoints []string
	if o.servers.Servers == "" {
		ofEtcd, urls, end, err := o.etcdEndpoints(ctx)
		if err != nil {
			return interrupted(ofEtcd, err)
		}
		defer end()
		ctx, endpoints = ofEtcd, urls
	}
	host := networks.NewHost()
	host.Report(func(text string) { klog.Warning(text) })
	crew := newCrew(ctx, o, besides{endpoints: endpoints, nodes: nodes, host: host, systemd: newSystemd()})
	if lane := openFirewall(ctx); lane != nil {
		crew.shared.filter = agent.ShareFilter(ctx, lane)
		defer func() { closing("firewall", lane.Close()) }()
	}
	if !o.watchNetworks {
		return orDied(ctx, crew.run(nil))
	}
	watched, end, err := o.watch(ctx, endpoints)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer end()
	return orDied(ctx, crew.run(watched))
}

// watchedNetworks are the names of the networks that a datastore holds.
type watchedNetworks interface {
	Names() (names []string, revision int64, synced bool)
	Changed() <-chan struct{}
}

// watch follows the networks of servers, or of etcd.
func (o *options) watch(ctx context.Context, endpoints []string) (watched watchedNetworks, end func(), err error) {
	if o.servers.Servers != "" {
		n, err := remote.OpenNetworks(ctx, o.remoteOptions())
		if err != nil {
			return nil, nil, err
		}
		return n, n.Close, nil
	}
	root, err := etcd.Open(ctx, o.storeOptions(endpoints))
	if err != nil {
		return nil, nil, err
	}
	return root.Networks(), root.Close, nil
}

// closableStore is the lease store of a network.
type closableStore interface {
	lease.Store
	Close()
}

// openStoreOf opens the lease store of a network: at servers, or in etcd.
func (o *options) openStoreOf(ctx context.Context, endpoints []string) (closableStore, error) {
	if o.servers.Servers != "" {
		return o.openRemote(ctx)
	}
	return etcd.Open(ctx, o.storeOptions(endpoints))
}

// runNetwork runs the node of a network, and a new one when that has removed its network
// or cannot go on, until ctx ends or a lost lease has to end the process. With --watch-networks a
// network that has been removed ends.
func (o *options) runNetwork(
	ctx context.Context, shared besides, health *agent.Health, lane driver.Lane, report func(node.Pulse),
) node.Exit {
	name := health.Network
	socket := o.serveSocket(ctx, health)
	defer func() { closing("control socket", socket.Close()) }()
	store, err := o.openStoreOf(ctx, shared.endpoints)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer store.Close()
	options := agent.Options{
		Network: name, Store: agent.Beside(ctx, shared.host, name, store), Health: health, Socket: socket,
		OnPulse: report,
	}
	if lane != nil {
		options.Lanes[node.FirewallLane] = lane
	}
	for {
		exit := o.runNode(ctx, options)
		next := o.crew().After(exit)
		switch {
		case ctx.Err() != nil || next == networks.Exit || next == networks.Leave:
			return exit
		case next == networks.Wait:
			klog.Infof("network %s: it waits for a config", name)
			shared.host.Gone(name)
			continue
		}
		klog.Errorf("network %s: %s; it begins again in %s", name, exit.Reason, networks.RetryPause)
		select {
		case <-ctx.Done():
		case <-time.After(networks.RetryPause):
		}
	}
}
