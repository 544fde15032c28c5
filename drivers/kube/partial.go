package kube

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Most of a node object, some 7 kB, is its status, which kubelet writes at least every five minutes, and of which
// the store needs nothing but that of its own node. So it watches the metadata alone, two fifths of an object. They
// lack the pod CIDRs too: the API server lets no client change those once they are set (ValidateNodeUpdate in
// pkg/apis/core/validation), so a node that the store knows has those that it knows. The store reads the objects of
// its own node and of those that flannel has just begun to run on: their daemons write annotations once they have
// pod CIDRs. If there are many such nodes, as when a cluster starts, or if a read fails, it watches whole objects
// for some minutes, which need no reads.

// The limits of reads of other nodes, each of which takes one.
const (
	readsPerSecond = 0.5
	readsAtOnce    = 10
)

// errPartial ends a watch of metadata that does not suffice.
var errPartial = errors.New("metadata do not suffice")

// insufficient returns errPartial with its cause, which is not an error of the watch.
func insufficient(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errPartial, fmt.Sprintf(format, args...))
}

// takePartial takes an item with what its metadata lack, or else a later state of its node. It takes nothing if the
// store knows the node as of the item's revision, or if the node has gone: an event that says so follows.
func (s *Store) takePartial(ctx context.Context, it item) error {
	known, seen := s.asKnown(it.node.Name)
	if it.revision <= seen {
		return nil
	}
	if it.node.Name != s.node {
		if known.UID == it.node.UID {
			it.node.PodCIDRs = known.PodCIDRs
		}
		if it.node.PodCIDRs != "" || !it.node.Participates() {
			s.take(it)
			return nil
		}
		if !s.reads.TryAccept() {
			return insufficient("many nodes join at once")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	whole, err := s.api.get(ctx, it.node.Name, it.revision)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return insufficient("get node %s: %v", it.node.Name, explain(err, "get nodes"))
	case whole.revision < it.revision:
		return insufficient("get node %s: as of revision %d, which is older than its event of %d",
			it.node.Name, whole.revision, it.revision)
	}
	s.take(whole)
	return nil
}
