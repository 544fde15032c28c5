package main

import (
	"context"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/etcd"
)

// datastore is the lease store that the flags choose.
type datastore struct {
	lease.Store
	ready  func()           // called when the node is ready for the first time; may be nil
	notify func(node.Event) // tells the operator of the cluster; may be nil
	close  func()
}

// openStore opens the store; with --embed-etcd, together with the etcd. The
// returned context ends with that etcd.
func openStore(ctx context.Context, o *options) (context.Context, datastore, error) {
	if o.kube.On {
		store, err := o.openKube(ctx)
		if err != nil {
			return ctx, datastore{}, err
		}
		return ctx, datastore{store, store.Available, notify(store), store.Close}, nil
	}
	if o.servers.Servers != "" {
		store, err := o.openRemote(ctx)
		if err != nil {
			return ctx, datastore{}, err
		}
		return ctx, datastore{store, nil, nil, store.Close}, nil
	}
	ctx, endpoints, end, err := o.etcdEndpoints(ctx)
	if err != nil {
		return ctx, datastore{}, err
	}
	store, err := etcd.Open(ctx, o.storeOptions(endpoints))
	if err != nil {
		end()
		return ctx, datastore{}, err
	}
	return ctx, datastore{store, nil, nil, func() { store.Close(); end() }}, nil
}

// etcdEndpoints returns where etcd is; with --embed-etcd it starts it first. The
// returned context ends with that etcd, and end stops it.
func (o *options) etcdEndpoints(ctx context.Context) (_ context.Context, endpoints []string, end func(), err error) {
	if o.embedEtcd.dir == "" {
		return ctx, o.etcd.URLs(), func() {}, nil
	}
	return startEtcd(ctx, o)
}
