// Command flannel-cni is the CNI plugin "flannel": see package cni. It is
// installed as flannel among the node's CNI plugins.
package main

import (
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/flanneld/flannel/cni"
	"github.com/flanneld/flannel/cni/bridge"
	"github.com/flanneld/flannel/internal/buildversion"
)

func main() {
	plugin := cni.Plugin{Clear: bridge.Clear}
	skel.PluginMainFuncs(plugin.Funcs(), version.All, "CNI plugin flannel "+buildversion.Version())
}
