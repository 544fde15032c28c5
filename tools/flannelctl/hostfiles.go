package flannelctl

import (
	"cmp"
	"os"

	"github.com/spf13/pflag"

	"github.com/flanneld/flannel/internal/hostpaths"
)

// hostFiles holds the flags that name the files of flannel on this host.
type hostFiles struct{ subnetFile, stateFile, cniConf string }

// define adds the flags to a set.
func (f *hostFiles) define(flags *pflag.FlagSet) {
	defineSubnetFile(flags, &f.subnetFile)
	flags.StringVar(&f.stateFile, "state-file", hostpaths.StateFile, "the `file` that flanneld's flag named")
	flags.StringVar(&f.cniConf, "cni-conf-dir", hostpaths.CNIConf, "`directory` of the CNI configuration")
}

// defineSubnetFile adds the flag that names the subnet file.
func defineSubnetFile(flags *pflag.FlagSet, path *string) {
	flags.StringVar(path, "subnet-file", hostpaths.SubnetFile, "the `file` that flanneld's flag named")
}

// statePaths returns where the state file may be: the present place first, then that
// of earlier releases.
func (f *hostFiles) statePaths() []string {
	path, former := hostpaths.StatePaths(f.subnetFile, f.stateFile)
	var paths []string
	for _, p := range []string{path, former} {
		if p != "" {
			paths = append(paths, p)
		}
	}
	return paths
}

// keyFile returns the path of WireGuard's key file.
func (f *hostFiles) keyFile() string {
	return cmp.Or(os.Getenv("WIREGUARD_KEY_FILE"), hostpaths.KeyFile)
}
