package flannelctl

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/tools/status"
)

func (a *app) status() *cobra.Command {
	var flags asking
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what this node has, and why it is not ready",
		Long: "status shows the phase of the node, its subnet, uplink, lease, firewall and peers, and the last repairs.\n" +
			"It works with a daemon that is stuck, fenced or away from its datastore, and says how old its knowledge is.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.show(cmd.Context(), &flags, func(ctx context.Context) (finding, error) {
				ask := flags.client().Status
				if wait {
					ask = flags.client().WaitReady
				}
				if wait && timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, timeout)
					defer cancel()
				}
				s, err := ask(ctx)
				return status.Result(s), err
			})
		},
	}
	flags.define(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the node is ready, even if no flanneld answers yet")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "longest `time` that --wait waits; 0: forever")
	return cmd
}
