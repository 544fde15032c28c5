package flannelctl

import (
	"context"
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/internal/noredirect"
	"github.com/flanneld/flannel/tools/migrate"
)

func (a *app) migrate() *cobra.Command {
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Copy the config and the leases of an older datastore",
	}
	c.AddCommand(a.migrateV2())
	return c
}

func (a *app) migrateV2() *cobra.Command {
	d := &datastore{}
	var from, prefix string
	var dry bool
	c := &cobra.Command{
		Use:   "etcd-v2 --from URL",
		Short: "Copy from the API v2 of an etcd, which flannel used up to v0.17",
		Long: "etcd-v2 copies the network config and the leases from the API v2 of an etcd into the etcd of flanneld's own " +
			"flags. It creates keys with their remaining TTL, and reservations without one; it changes and deletes none. " +
			"Run it again until no node uses the old store: it continues where it ended, and lists what differs.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if from == "" {
				return usageError{errors.New("--from names the old etcd")}
			}
			if prefix == "" {
				prefix = d.etcd.Prefix
			}
			return a.runMigrateV2(c.Context(), d, from, prefix, dry)
		},
	}
	a.defineDatastore(d, c)
	flags := c.Flags()
	flags.StringVar(&from, "from", "", "the `URL` of the old etcd; http://user:password@host works too")
	flags.StringVar(&prefix, "prefix", "", "the `key` below which the old etcd has them (that of --etcd-prefix)")
	flags.BoolVar(&dry, "dry-run", false, "only list what would be copied")
	return c
}

func (a *app) runMigrateV2(ctx context.Context, d *datastore, from, prefix string, dry bool) error {
	if d.kube.On {
		return usageError{errors.New("--kube-subnet-mgr: Kubernetes assigns the subnets, so there is nothing to copy")}
	}
	snap, store, err := d.changeable(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	reading, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	records, err := migrate.Fetch(reading, noredirect.Client(http.DefaultClient), from, prefix)
	if err != nil {
		return err
	}
	return a.printFound(migrate.Run(ctx, records, snap, store, dry))
}
