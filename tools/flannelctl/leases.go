package flannelctl

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/tools/leases"
)

// defaultTTL is the TTL of a lease that was a reservation (interop 3.4).
const defaultTTL = 24 * time.Hour

func (a *app) leases() *cobra.Command {
	d := &datastore{}
	c := &cobra.Command{
		Use:   "leases",
		Short: "Show and change the subnets of the nodes, in the datastore",
		Long: "leases shows and changes the records of the datastore, with flanneld's own flags for it. A subnet is " +
			"free, leased, reserved (its record never expires), or quarantined (its record does not decode). Every change " +
			"is made to the record as it was read, or not at all.",
	}
	a.defineDatastore(d, c)
	c.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List all records", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return a.listLeases(c.Context(), d) },
		},
		&cobra.Command{
			Use: "show SUBNET", Short: "Show one subnet, free or not", Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error { return a.showLease(c.Context(), d, args[0]) },
		},
		a.changeLease(d, "reserve", "Make the record of a subnet never expire; a free subnet gets one for --owner",
			func(ctx context.Context, s *etcd.Store, snap *lease.Snapshot, key lease.Key, owner netip.Addr) error {
				return leases.Reserve(ctx, s, snap, key, owner)
			}),
		a.changeLease(d, "unreserve", "Let the record of a subnet expire after 24 hours, unless its owner renews it",
			func(ctx context.Context, s *etcd.Store, snap *lease.Snapshot, key lease.Key, owner netip.Addr) error {
				return leases.Unreserve(ctx, s, snap, key, owner, defaultTTL)
			}),
		a.changeLease(d, "release", "Delete the record of a subnet; --owner has to name its owner",
			func(ctx context.Context, s *etcd.Store, snap *lease.Snapshot, key lease.Key, owner netip.Addr) error {
				return leases.Release(ctx, s, snap, key, owner)
			}),
	)
	return c
}

func (a *app) listLeases(ctx context.Context, d *datastore) error {
	snap, store, err := d.snapshot(ctx)
	if err != nil {
		return err
	}
	if store != nil {
		defer store.Close()
	}
	return a.printFound(leases.Of(snap, d.kube.On))
}

func (a *app) showLease(ctx context.Context, d *datastore, subnet string) error {
	key, err := leases.ParseSubnet(subnet)
	if err != nil {
		return usageError{err}
	}
	snap, store, err := d.snapshot(ctx)
	if err != nil {
		return err
	}
	var records leases.Records // nil unless it is an etcd
	if store != nil {
		defer store.Close()
		records = store
	}
	record, err := leases.Show(ctx, records, snap, key, d.kube.On)
	if err != nil {
		return err
	}
	return a.printFound(record)
}

// changeLease returns a command that changes the record of one subnet.
func (a *app) changeLease(
	d *datastore, verb, short string,
	change func(context.Context, *etcd.Store, *lease.Snapshot, lease.Key, netip.Addr) error,
) *cobra.Command {
	var owner string
	c := &cobra.Command{
		Use: verb + " SUBNET", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			key, err := leases.ParseSubnet(args[0])
			if err != nil {
				return usageError{err}
			}
			var address netip.Addr
			if owner != "" {
				address, err = netip.ParseAddr(owner)
			}
			if err != nil {
				return usageError{fmt.Errorf("--owner: %w", err)}
			}
			if d.kube.On {
				return errAssigned
			}
			snap, store, err := d.changeable(c.Context())
			if err != nil {
				return err
			}
			defer store.Close()
			if err := change(c.Context(), store, snap, key, address); err != nil {
				return err
			}
			return a.Print(done{fmt.Sprintf("%sd %s", verb, key)})
		},
	}
	c.Flags().StringVar(&owner, "owner", "", "public `IP` of the subnet's owner")
	return c
}
