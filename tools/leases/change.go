package leases

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/netconfig"
)

// Records are the changes that an operator makes to a datastore. Each is made to a
// record as it was read, or not at all.
type Records interface {
	// PutRecord writes a record with a TTL; with 0 it is a reservation.
	PutRecord(ctx context.Context, l lease.Lease, ttl time.Duration) error
	DeleteRecord(ctx context.Context, l lease.Lease) error
	// Remaining returns the time until a record expires.
	Remaining(ctx context.Context, l lease.Lease) (time.Duration, error)
}

// ParseSubnet reads a subnet as the datastore spells it, or as prefixes with a comma
// between those of two families.
func ParseSubnet(text string) (lease.Key, error) {
	if !strings.Contains(text, "/") {
		return lease.ParseKey(text)
	}
	var key lease.Key
	for part := range strings.SplitSeq(text, ",") {
		p, err := netip.ParsePrefix(part)
		into := cidr.Pick(cidr.FamilyOf(p.Addr()), &key.V4, &key.V6)
		if err != nil || p != p.Masked() || into.IsValid() {
			return lease.Key{}, fmt.Errorf("subnet %q: want a prefix such as 10.5.1.0/24, "+
				"or one for each family with a comma between them", text)
		}
		*into = p
	}
	return key, nil
}

// find returns the record of a subnet, nil if there is none. A quarantined one is an
// error: nothing is known about its owner.
func find(snap *lease.Snapshot, key lease.Key) (*lease.Lease, error) {
	for _, q := range snap.Quarantined {
		if q.Key == key {
			return nil, fmt.Errorf("the record %q does not decode (%s); repair or delete it with etcdctl", q.Raw, q.Reason)
		}
	}
	i := slices.IndexFunc(snap.Leases, func(l *lease.Lease) bool { return l.Key == key })
	if i < 0 {
		return nil, nil
	}
	return snap.Leases[i], nil
}

// Show returns one subnet, which may be free.
func Show(ctx context.Context, from Records, snap *lease.Snapshot, key lease.Key, kubernetes bool) (*Record, error) {
	for _, r := range Of(snap, kubernetes).Records {
		if k, err := lease.ParseKey(r.Subnet); err != nil || k != key {
			continue
		}
		l, err := find(snap, key)
		if err != nil || l.Reserved() || from == nil {
			return &r, nil
		}
		left, err := from.Remaining(ctx, *l)
		r.Expires = left.String()
		return &r, err
	}
	r := &Record{Subnet: key.String(), State: Free}
	for _, l := range snap.Leases {
		if l.Key.Overlaps(key) {
			r.State = recordOf(*l, kubernetes).State
			r.Problem = fmt.Sprintf("it overlaps %s of %s", l.Key, netconfig.OwnerOf(l.Attrs))
		}
	}
	if network, _, err := node.CheckConfig(snap.Config.Data, kubernetes); err == nil && r.Problem == "" && !kubernetes {
		if misfit := alloc.Compatible(network, key); misfit != nil {
			r.Problem = misfit.Error()
		}
	}
	return r, nil
}

// Reserve makes the record of a subnet never expire. It makes a new record for the
// owner if the subnet is free. The owner is one of the record's public addresses.
func Reserve(ctx context.Context, in Records, snap *lease.Snapshot, key lease.Key, owner netip.Addr) error {
	l, err := find(snap, key)
	if err != nil {
		return err
	}
	if l != nil {
		if err := owned(l, owner); err != nil {
			return err
		}
		if l.Reserved() {
			return nil
		}
		return in.PutRecord(ctx, *l, 0)
	}
	if !owner.IsValid() {
		return errors.New("the subnet is free; name its future owner with --owner, by its public IP")
	}
	network, _, err := node.CheckConfig(snap.Config.Data, false)
	if err != nil {
		return err
	}
	if err := alloc.Compatible(network, key); err != nil {
		return err
	}
	if !alloc.Free(snap, key) {
		return fmt.Errorf("subnet %s overlaps another record", key)
	}
	fresh := lease.Lease{Key: key}
	*cidr.Pick(cidr.FamilyOf(owner), &fresh.Attrs.PublicIP, &fresh.Attrs.PublicIPv6) = owner
	return in.PutRecord(ctx, fresh, 0)
}

// Unreserve gives a reservation a TTL. Its owner renews it if a daemon runs there.
func Unreserve(
	ctx context.Context, in Records, snap *lease.Snapshot, key lease.Key, owner netip.Addr, ttl time.Duration,
) error {
	l, err := existing(snap, key, owner)
	if err != nil || !l.Reserved() {
		return err
	}
	return in.PutRecord(ctx, *l, ttl)
}

// Release deletes the record of a subnet. The owner must be named.
func Release(ctx context.Context, in Records, snap *lease.Snapshot, key lease.Key, owner netip.Addr) error {
	if !owner.IsValid() {
		return errors.New("name the owner with --owner, by its public IP")
	}
	l, err := existing(snap, key, owner)
	if err != nil {
		return err
	}
	return in.DeleteRecord(ctx, *l)
}

// existing returns the record of a subnet and an owner.
func existing(snap *lease.Snapshot, key lease.Key, owner netip.Addr) (*lease.Lease, error) {
	l, err := find(snap, key)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return nil, fmt.Errorf("there is no record of subnet %s", key)
	}
	return l, owned(l, owner)
}

// owned returns an error if a record is not that owner's. Without an owner it accepts any.
func owned(l *lease.Lease, owner netip.Addr) error {
	if owner.IsValid() && owner != l.Attrs.PublicIP && owner != l.Attrs.PublicIPv6 {
		return fmt.Errorf("the owner of subnet %s is %s, not %s", l.Key, netconfig.OwnerOf(l.Attrs), owner)
	}
	return nil
}
