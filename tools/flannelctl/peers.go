package flannelctl

import (
	"context"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/tools/peers"
)

func (a *app) peers() *cobra.Command {
	var flags asking
	cmd := &cobra.Command{
		Use:   "peers [NODE]",
		Short: "Show the other nodes, and how this one reaches them",
		Long: "peers shows each other node with its subnet, address and backend, the way by which this node sends to it,\n" +
			"and what is wrong with it. NODE is a subnet, or the address of a node or of one of its pods.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var name netip.Prefix // zero: all
			if len(args) > 0 {
				var err error
				name, err = peers.ParseName(args[0])
				if err != nil {
					return usageError{err}
				}
			}
			return a.show(cmd.Context(), &flags, func(ctx context.Context) (finding, error) {
				all, err := flags.client().Peers(ctx)
				if err != nil {
					return nil, err
				}
				return peers.Result(all).Matching(name)
			})
		},
	}
	flags.define(cmd)
	return cmd
}
