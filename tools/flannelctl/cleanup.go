package flannelctl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/drivers/linux/firewall"
	"github.com/flanneld/flannel/internal/hostpaths"
	"github.com/flanneld/flannel/tools/cleanup"
	"github.com/flanneld/flannel/tools/daemon"
	"github.com/flanneld/flannel/tools/output"
)

// cleanupFlags are the flags of the command cleanup.
type cleanupFlags struct {
	dryRun   bool
	networks []string
	files    hostFiles
	options  cleanup.Options
}

func (a *app) cleanup() *cobra.Command {
	var f cleanupFlags
	c := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove everything that flannel made on this host",
		Long: "cleanup removes what flannel made on this host, this flannel or upstream's: devices, routes, IPsec " +
			"policies, rules of iptables and nftables, files, the state of the CNI plugin. It lists them first. It leaves " +
			"everything else, and names what it leaves next to it. It needs root, and removes nothing " +
			"while flanneld runs. The lease stays in the datastore: flannelctl leases release deletes it.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.runCleanup(c.Context(), &f) },
	}
	flags := c.Flags()
	flags.BoolVar(&f.dryRun, "dry-run", false, "only list what would be removed")
	flags.StringSliceVar(&f.networks, "network", nil,
		"a `prefix` that was flannel's network, if the files that name it are gone; may be repeated")
	f.files.define(flags)
	flags.StringVar(&f.options.CNIData, "cni-data-dir", hostpaths.CNIData, "`directory` of the CNI plugin's state")
	flags.StringVar(&f.options.CNIBin, "cni-bin-dir", hostpaths.CNIBin, "`directory` of the CNI plugins")
	flags.BoolVar(&f.options.KeepCNI, "keep-cni", false, "leave the state and the configuration of the CNI plugin")
	return c
}

func (a *app) runCleanup(ctx context.Context, f *cleanupFlags) (err error) {
	o := f.options
	for _, text := range f.networks {
		network, err := netip.ParsePrefix(text)
		if err != nil || network.Bits() == 0 {
			return usageError{fmt.Errorf("--network %s: want a prefix such as 10.5.0.0/16", text)}
		}
		o.Networks = append(o.Networks, network.Masked())
	}
	o.SubnetFiles, o.StateFiles = []string{f.files.subnetFile}, f.files.statePaths()
	o.KeyFiles, o.CNIConf = []string{f.files.keyFile()}, f.files.cniConf
	o.Daemons = daemon.Processes

	host, err := linux.New(ctx, nil)
	if err != nil {
		return fmt.Errorf("cleanup needs the rights of root: open the network configuration: %w", err)
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	filter, err := firewall.New(ctx)
	if err != nil {
		return fmt.Errorf("cleanup needs the rights of root: open the packet filter: %w", err)
	}
	defer func() { err = errors.Join(err, filter.Close()) }()
	o.Host, o.Firewall = host, filter

	return a.remove(f.dryRun, func(dryRun bool) (*cleanup.Result, error) { return cleanup.Run(ctx, o, dryRun) })
}

// remove prints what will be removed before it is, so that a person sees it also if the
// command does not end. Programs get the result alone.
func (a *app) remove(dryRun bool, run func(dryRun bool) (*cleanup.Result, error)) error {
	if !dryRun && a.Format == output.Table {
		list, err := run(true)
		if err != nil {
			return err
		}
		if len(list.Items) > 0 && len(list.Running) == 0 {
			if err := a.Print(list); err != nil {
				return err
			}
			fmt.Fprintln(a.Out)
		}
	}
	result, err := run(dryRun)
	if err != nil {
		return err
	}
	return a.printFound(result)
}
