package flannelctl

import (
	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/tools/output"
)

// root returns flannelctl with all its commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "flannelctl",
		Short: "Show what flannel does on this host, and find faults",
		Long: "flannelctl shows what flannel does on this host, and finds faults.\n\n" +
			"Its exit status is 0 if all is well, 1 if it found a fault or could not do its work, " +
			"and 2 if the command line is wrong.",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if err := c.ValidateFlagGroups(); err != nil {
				return err
			}
			a.started = true
			a.complain(c)
			return nil
		},
	}
	a.fitHelp(root)
	a.Format = output.Table
	root.PersistentFlags().VarP(&a.Format, "output", "o", "form of the result")
	root.AddCommand(
		a.check(),
		a.cleanup(),
		a.change(),
		a.config(),
		a.dockerOpts(),
		a.dump(),
		a.leases(),
		a.status(), a.peers(), a.diff(), a.ping(), a.mesh(), a.report(),
		a.migrate(),
		a.trace(),
		a.man(),
		a.schema(),
		a.version(),
	)
	return root
}
