package main

import (
	"flag"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/cni/install"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/internal/hostpaths"
)

// pluginName is the name of the CNI plugin's file beside the daemon.
const pluginName = "flannel-cni"

func (o *options) defineInstall(fs *flag.FlagSet) {
	fs.BoolVar(&o.installCNI, "install-cni", false, "put the CNI plugin and its configuration in place, and exit")
	fs.StringVar(&o.cni.BinDir, "cni-bin-dir", hostpaths.CNIBin,
		"`directory` of the node's CNI plugins, for --install-cni")
	fs.StringVar(&o.cni.ConfDir, "cni-conf-dir", hostpaths.CNIConf,
		"`directory` of the node's CNI configuration, for --install-cni")
	fs.StringVar(&o.cni.Conf, "cni-conf", "/etc/kube-flannel/cni-conf.json",
		"network configuration list `file` to install, for --install-cni; empty: the plugin alone")
}

// installCNI does the work of an init container.
func installCNI(files install.Files) node.Exit {
	self, err := os.Executable()
	if err != nil {
		return failed(err)
	}
	files.Plugin = filepath.Join(filepath.Dir(self), pluginName)
	written, err := files.Install()
	for _, path := range written {
		klog.Infof("installed %s", path)
	}
	if err != nil {
		return failed(err)
	}
	return node.Exit{Status: statusOK, Reason: "the CNI plugin and its configuration are in place"}
}
