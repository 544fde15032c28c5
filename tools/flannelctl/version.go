package flannelctl

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/internal/buildversion"
	"github.com/flanneld/flannel/tools/output"
)

// versions is the result of the command version.
type versions struct {
	Flannelctl string `json:"Flannelctl"`
	Flanneld   string `json:"Flanneld"` // empty if no daemon answers
}

// Text prints a line for each program.
func (v versions) Text(p *output.Page) {
	p.Table(nil, output.Row("flannelctl", v.Flannelctl), output.Row("flanneld", cmp.Or(v.Flanneld, "does not answer")))
}

func (a *app) version() *cobra.Command {
	var flags asking
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of flannelctl and of the daemon",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versions{Flannelctl: buildversion.Version()}
			s, err := flags.client().Status(cmd.Context())
			if err == nil {
				v.Flanneld = s.Version
			}
			return a.Print(v)
		},
	}
	flags.defineDaemon(cmd)
	return cmd
}
