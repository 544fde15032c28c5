package flannelctl

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/tools/diff"
)

func (a *app) diff() *cobra.Command {
	var flags asking
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "Show objects that the host lacks, or should not have",
		Long: "diff shows the difference between the state that flanneld desires and the state of the host at its last\n" +
			"look: + is an object that is desired but missing, - one that exists but is not desired. It prints nothing if\n" +
			"there is no difference.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.show(cmd.Context(), &flags, func(ctx context.Context) (finding, error) {
				d, err := flags.client().Diff(ctx)
				return diff.Result(d), err
			})
		},
	}
	flags.define(cmd)
	return cmd
}
