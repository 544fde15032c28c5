package flannelctl

import (
	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/internal/hostpaths"
	"github.com/flanneld/flannel/tools/dockeropts"
)

// dockerOpts has the flags of mk-docker-opts.sh (interop 4.4), with long names beside them.
func (a *app) dockerOpts() *cobra.Command {
	var form dockeropts.Form
	var subnetFile, file string
	c := &cobra.Command{
		Use:   "docker-opts",
		Short: "Write the options with which Docker uses this host's subnet",
		Long: "docker-opts writes a file with the options for dockerd that the subnet file asks for: --bip, --ip-masq and " +
			"--mtu. It does the same as the script mk-docker-opts.sh, and needs no shell. It changes nothing, and its exit " +
			"status is 1, if a route leads to the subnet by a gateway: then the subnet is on another host.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := form.Complete(); err != nil {
				return usageError{err}
			}
			subnet, err := dockeropts.Read(subnetFile)
			if err != nil {
				return err
			}
			if err := subnet.CheckRoutes(); err != nil {
				return err
			}
			return a.writeDockerOpts(file, subnet.Format(form))
		},
	}
	flags := c.Flags()
	flags.StringVarP(&subnetFile, "subnet-file", "f", hostpaths.SubnetFile, "the subnet `file` of flanneld")
	flags.StringVarP(&file, "docker-file", "d", dockeropts.DefaultFile, "the `file` to write")
	flags.BoolVarP(&form.Separate, "separate", "i", false,
		"write each option as a variable of its own: DOCKER_OPT_BIP …")
	flags.BoolVarP(&form.Combined, "combined", "c", false,
		"write all options as one variable; without this and --separate, both forms")
	flags.BoolVarP(&form.NoMasq, "no-ip-masq", "m", false, "leave out --ip-masq")
	flags.StringVarP(&form.Key, "key", "k", dockeropts.DefaultKey, "the `name` of the one variable")
	return c
}

// writeDockerOpts writes the file, or to the output of flannelctl.
func (a *app) writeDockerOpts(file string, text []byte) error {
	if file == "/dev/stdout" {
		_, err := a.Out.Write(text)
		return err
	}
	return dockeropts.Write(file, text)
}
