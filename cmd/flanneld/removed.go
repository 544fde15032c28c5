package main

import "strings"

// removed tells for flags of older releases (interop 1.7) what does their job
// now. The flags themselves are as unknown as in upstream's later releases.
func removed(flagName string) string {
	switch {
	case flagName == "etcd-endpoint":
		return "use --etcd-endpoints"
	case flagName == "listen" || flagName == "remote" || strings.HasPrefix(flagName, "remote-"):
		return "the server mode is gone: point --etcd-endpoints at etcd itself"
	case flagName == "networks" || flagName == "watch-networks" || flagName == "subnet-dir":
		return "run one flanneld for each network, with --etcd-prefix and --subnet-file of its own"
	case flagName == "use-multi-cluster-cidr":
		return "the ClusterCIDR API is gone from Kubernetes; leave it out"
	}
	return ""
}

// parseError explains an error of flag.FlagSet.Parse.
func parseError(err error) string {
	text := err.Error()
	if name, unknown := strings.CutPrefix(text, "flag provided but not defined: -"); unknown {
		text = "unknown flag --" + name
		if hint := removed(name); hint != "" {
			text += " (" + hint + ")"
		}
	}
	return text
}
