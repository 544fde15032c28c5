package flannelctl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/internal/pause"
	"github.com/flanneld/flannel/tools/change"
	"github.com/flanneld/flannel/tools/netconfig"
)

// changeOptions say what change does beside showing.
type changeOptions struct {
	wait, end, force bool
	waitFor          time.Duration
}

func (a *app) change() *cobra.Command {
	d, o := &datastore{}, &changeOptions{}
	c := &cobra.Command{
		Use: "change", Args: cobra.NoArgs,
		Short: "Show how far the nodes are with a change of the backend; wait for them; end it",
		Long: "change reads the network config and the records of the datastore, and shows which nodes offer the backend " +
			"of the config. With --end it writes the config anew with an empty list of previous backends (Formerly), so that " +
			"nodes end theirs; it refuses that while a node has not followed, since that node would be cut off until it " +
			"follows. The exit status is 1 while nodes have not followed.",
		Example: "  flannelctl config set net-conf.json   # with another backend\n" +
			"  flannelctl change --wait --end        # once all nodes have followed, the previous backend goes",
		RunE: func(c *cobra.Command, _ []string) error { return a.runChange(c.Context(), d, o) },
	}
	a.defineDatastore(d, c)
	c.Flags().BoolVar(&o.wait, "wait", false, "wait until all nodes have followed")
	c.Flags().DurationVar(&o.waitFor, "wait-for", 10*time.Minute, "longest `time` for --wait")
	c.Flags().BoolVar(&o.end, "end", false, "end the change: nodes give up the previous backends")
	c.Flags().BoolVar(&o.force, "force", false, "end it even if nodes have not followed")
	return c
}

func (a *app) runChange(ctx context.Context, d *datastore, o *changeOptions) error {
	if o.end && d.kube.On {
		return errors.New("with --kube-subnet-mgr the config is a file of every node: set \"Formerly\": [] in " +
			"net-conf.json in the ConfigMap kube-flannel-cfg, or leave flannel.formerly of the chart empty")
	}
	if o.end && d.servers.Servers != "" {
		return errReadOnly
	}
	r, err := a.awaitFollowers(ctx, d, o)
	if err != nil {
		return err
	}
	if !o.end {
		return a.printFound(r)
	}
	if !r.Done() && !o.force {
		return errors.Join(a.Print(r), fmt.Errorf("not ended, since these nodes have not followed: %s; wait with --wait, "+
			"start those that are down, delete the records of hosts that are gone (flannelctl leases release), or use "+
			"--force", strings.Join(r.Waiting(), ", ")))
	}
	snap, store, err := d.changeable(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	r, err = endChange(ctx, store, snap)
	if err != nil {
		return err
	}
	return a.Print(r)
}

// changePoll is the time between two readings of a waiting command.
const changePoll = 2 * time.Second

// awaitFollowers returns the state of the change: at once, or with --wait when all nodes have followed.
func (a *app) awaitFollowers(ctx context.Context, d *datastore, o *changeOptions) (*change.Report, error) {
	until := time.Now().Add(o.waitFor)
	for said := ""; ; {
		r, err := d.readChange(ctx)
		if err == nil && r.Done() || !o.wait || !time.Now().Before(until) {
			return r, err
		}
		progress := fmt.Sprint(err) // a datastore may be away for a moment
		if err == nil {
			progress = fmt.Sprintf("%d of %d nodes have followed", r.Followed, len(r.Nodes))
		}
		if progress != said {
			fmt.Fprintf(a.stderr, "flannelctl: waiting: %s\n", progress)
			said = progress
		}
		if !pause.For(ctx, changePoll) {
			return nil, ctx.Err()
		}
	}
}

// readChange reads the state of the change once.
func (d *datastore) readChange(ctx context.Context) (*change.Report, error) {
	snap, err := d.stored(ctx)
	if err != nil {
		return nil, err
	}
	if snap.Config.Revision == 0 && !d.kube.On {
		return nil, d.noConfig()
	}
	return change.Of(snap, d.kube.On)
}

// endChange writes the config without previous backends, unless it says so already or has changed meanwhile.
func endChange(ctx context.Context, store *etcd.Store, snap *lease.Snapshot) (*change.Report, error) {
	r, err := change.Of(snap, false)
	if err != nil {
		return nil, err
	}
	if r.Formerly != nil && len(r.Formerly) == 0 {
		r.Ended = "before: the config names no previous backend"
		return r, nil
	}
	data, err := netconfig.WithFormerly(snap.Config.Data, []config.Backend{})
	if err != nil {
		return nil, err
	}
	if err := store.SetConfig(ctx, data, snap.Config.Revision); err != nil {
		return nil, err
	}
	r.Formerly = []string{}
	r.Ended = "the nodes give up the previous backends from now on"
	return r, nil
}
