// Command flannel-cni is the CNI plugin "flannel": see package cni. It is
// installed as flannel among the node's CNI plugins.
package main

import (
	"runtime/debug"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/flanneld/flannel/cni"
)

func main() {
	skel.PluginMainFuncs(cni.Plugin{}.Funcs(), version.All, "CNI plugin flannel "+buildVersion())
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown version)"
}
