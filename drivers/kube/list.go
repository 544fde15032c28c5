package kube

import (
	"context"
	"fmt"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/nodelease"
)

// List reads the leases of all nodes once. It needs no node of its own, and none of
// the rights that a [Store] needs beyond the list of nodes.
func List(ctx context.Context, o Options) (*lease.Snapshot, error) {
	o = o.withDefaults()
	set, server, err := o.prepare()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	return readAll(ctx, server, set)
}

// readAll reads all nodes, part by part.
func readAll(ctx context.Context, from api, set setup) (*lease.Snapshot, error) {
	table := nodelease.NewTable("", set.doc, set.network)
	listing := table.List()
	for token := ""; ; {
		part, err := from.list(ctx, token, func(it item) { listing.Add(it.node, it.revision) })
		if err != nil {
			return nil, fmt.Errorf("list the nodes: %w", err)
		}
		token = part.next
		if token == "" {
			listing.End(part.revision)
			snap, _ := table.Snapshot()
			return snap, nil
		}
	}
}
