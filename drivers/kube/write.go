package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flanneld/flannel/core/lease"
)

// Create implements lease.Store: it annotates our node with the attributes.
func (s *Store) Create(ctx context.Context, key lease.Key, attrs lease.Attrs, _ time.Duration) (lease.Grant, error) {
	g, err := s.annotate(ctx, key, attrs)
	if err != nil {
		return lease.Grant{}, fmt.Errorf("annotate node %s with lease %s: %w", s.node, key, err)
	}
	return g, nil
}

// Update implements lease.Store. Other writes to the node since the grant are
// no obstacle: only the node itself writes these annotations.
func (s *Store) Update(ctx context.Context, g lease.Grant, attrs lease.Attrs, ttl time.Duration) (lease.Grant, error) {
	return s.Create(ctx, g.Key, attrs, ttl)
}

// Renew implements lease.Store: a node's pod CIDRs do not expire.
func (s *Store) Renew(_ context.Context, g lease.Grant) (lease.Grant, error) { return g, nil }

// Move implements lease.Store: the cluster assigns the subnets, so no node moves.
func (s *Store) Move(
	_ context.Context, g lease.Grant, to lease.Key, _ lease.Attrs, _ time.Duration,
) (lease.Grant, error) {
	return lease.Grant{}, fmt.Errorf("move lease %s to %s: Kubernetes assigns the subnets", g.Key, to)
}

// Release implements lease.Store: a subnet belongs to the node object, and the
// store cannot give it back.
func (s *Store) Release(context.Context, lease.Grant) error { return nil }

func (s *Store) annotate(ctx context.Context, key lease.Key, attrs lease.Attrs) (lease.Grant, error) {
	ctx, done, err := s.bounded(ctx)
	if err != nil {
		return lease.Grant{}, err
	}
	defer done()
	grant := lease.Grant{Lease: lease.Lease{Key: key, Attrs: attrs}}
	change, err := s.change(key, attrs, &grant)
	if change == nil || err != nil {
		return grant, err
	}
	it, err := s.api.patch(ctx, s.node, change)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // the node is gone, or another has its name
		return lease.Grant{}, fmt.Errorf("%w: %w", lease.ErrLost, err)
	}
	if err != nil {
		return lease.Grant{}, explain(err, "patch nodes/status")
	}
	s.take(it)
	grant.ModRevision = it.revision
	return grant, nil
}

// change completes the grant and returns the patch to send. It returns no patch if the
// node already has the values.
func (s *Store) change(key lease.Key, attrs lease.Attrs, grant *lease.Grant) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table == nil || s.table.Revision() == 0 {
		return nil, s.err
	}
	own, seen := s.table.Node(s.node)
	_, assigned := s.table.Snapshot()
	if seen == 0 || assigned.Key != key {
		return nil, fmt.Errorf("%w: node %s has pod CIDRs %q", lease.ErrLost, s.node, own.PodCIDRs)
	}
	grant.CreateRevision = own.CreateRevision()
	changes := own.Changes(s.names, attrs)
	if len(changes) == 0 {
		grant.ModRevision = s.table.Revision()
		return nil, nil
	}
	return json.Marshal(nodePatch{Metadata: metadata{own.UID, changes}})
}

// nodePatch is a strategic merge patch of a node. The UID makes the server
// refuse it if the node object has been replaced by another of its name.
type nodePatch struct {
	Metadata metadata `json:"metadata"`
	Status   *status  `json:"status,omitempty"`
}

type metadata struct {
	UID         string            `json:"uid"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type status struct {
	Conditions []nodeCondition `json:"conditions"`
}
