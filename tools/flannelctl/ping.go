package flannelctl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/node"
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
			all, status := a.known(ctx, &flags)
			target, err := ping.Target(args[0], all, status)
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

// known asks the daemon for its peers and its status. Without an answer it says so and
// continues: an IP address can be probed all the same.
func (a *app) known(ctx context.Context, flags *asking) (control.Peers, node.Status) {
	var status node.Status
	all, err := flags.client().Peers(ctx)
	if err == nil {
		status, err = flags.client().Status(ctx)
	}
	if err != nil {
		fmt.Fprintf(a.stderr, "flannelctl: continuing without the daemon: %v\n", err)
	}
	return all, status
}
