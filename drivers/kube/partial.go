package kube

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Most of a node object, some 10 kB, is its status, which kubelet writes at least every five minutes, and of which
// the store needs nothing but that of its own node. So it watches the metadata alone, a quarter of that. They lack the
// pod CIDRs too: the API server lets no client change those once they are set (ValidateNodeUpdate in
// pkg/apis/core/validation), so a node that the store knows has those that it knows. The store reads the objects of
// all others, and its own. If there are many, as when a cluster starts, it watches whole objects for some minutes.

// The limits of reads of single nodes. A node that joins needs about three.
const (
	readsPerSecond = 0.5
	readsAtOnce    = 10
)

// errPartial ends a watch of metadata that does not suffice.
var errPartial = errors.New("a watch of metadata does not suffice")

// completed returns an item with what its metadata lack. The object that it reads may be a later one.
func (s *Store) completed(ctx context.Context, it item) (item, error) {
	if it.node.Name != s.node {
		it.node.PodCIDRs = s.podCIDRs(it)
		if it.node.PodCIDRs != "" {
			return it, nil
		}
		if !s.reads.TryAccept() {
			return item{}, errPartial
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	whole, err := s.api.get(ctx, it.node.Name, it.revision)
	switch {
	case apierrors.IsNotFound(err): // an event that says so follows
		return it, nil
	case apierrors.IsForbidden(err): // some roles of older manifests have no more than list and watch
		return item{}, errPartial
	case err != nil:
		return item{}, fmt.Errorf("get node %s: %w", it.node.Name, err)
	case whole.node.UID == it.node.UID: // else it is another node, of which an event follows
		it.node.PodCIDRs, it.status = whole.node.PodCIDRs, whole.status
	}
	return it, nil
}

// podCIDRs returns the pod CIDRs of a node as far as the store knows them.
func (s *Store) podCIDRs(it item) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, exists := s.table.Node(it.node.Name); exists && known.UID == it.node.UID {
		return known.PodCIDRs
	}
	return ""
}
