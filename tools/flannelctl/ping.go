package flannelctl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/drivers/linux/echo"
	"github.com/flanneld/flannel/tools/peers"
	"github.com/flanneld/flannel/tools/ping"
)

func (a *app) ping() *cobra.Command {
	var flags asking
	var mtu bool
	var count int
	cmd := &cobra.Command{
		Use:   "ping NODE|IP",
		Short: "Probe another node, or a pod, from this host now",
		Long: "ping sends ICMP echoes from this host. NODE is a subnet, or the address of a node, and stands for the\n" +
			"node's address in the overlay; any other IP is probed itself. With --mtu, ping also finds out whether packets\n" +
			"of the size of the pods' MTU pass, or which size does, and whether TCP passes. It needs root.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := peers.ParseName(args[0]); err != nil {
				return usageError{err}
			}
			ctx := cmd.Context()
			all, size := a.knownPeers(ctx, &flags)
			target, err := ping.Target(args[0], all, size)
			if err != nil {
				return err // no peer, or none that can be learnt
			}
			probing := func() (ping.Result, error) { return ping.Echo(ctx, target, count, echo.Probe) }
			if mtu {
				probing = func() (ping.Result, error) { return ping.Examine(ctx, target, echo.Probe) }
			}
			result, err := probing()
			if err != nil {
				return err
			}
			return a.printFound(result)
		},
	}
	flags.defineDaemon(cmd)
	cmd.Flags().BoolVar(&mtu, "mtu", false, "find the largest packet that passes, and try TCP")
	cmd.Flags().IntVarP(&count, "count", "c", 3, "`number` of echoes, without --mtu")
	return cmd
}

// knownPeers asks the daemon for its peers and the pods' MTU. Without an answer it says so
// and continues: an IP address can be probed all the same.
func (a *app) knownPeers(ctx context.Context, flags *asking) (all control.Peers, mtu int) {
	all, err := flags.client().Peers(ctx)
	if err == nil {
		status, failed := flags.client().Status(ctx)
		mtu, err = status.MTU, failed
	}
	if err != nil {
		fmt.Fprintf(a.stderr, "flannelctl: continuing without the daemon: %v\n", err)
	}
	return all, mtu
}
