package main

import (
	"context"
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

// The values of --cni-versions.
const (
	cniAuto = "auto"
	cniKeep = "keep"
)

func (o *options) defineInstall(fs *flag.FlagSet) {
	fs.BoolVar(&o.installCNI, "install-cni", false, "put the CNI plugin and its configuration in place, and exit")
	fs.StringVar(&o.cni.BinDir, "cni-bin-dir", hostpaths.CNIBin,
		"`directory` of the node's CNI plugins, for --install-cni")
	fs.StringVar(&o.cni.ConfDir, "cni-conf-dir", hostpaths.CNIConf,
		"`directory` of the node's CNI configuration, for --install-cni")
	fs.StringVar(&o.cni.Conf, "cni-conf", "/etc/kube-flannel/cni-conf.json",
		"network configuration list `file` to install, for --install-cni; empty: only the plugin")
	o.cniVersions = choice{value: cniAuto, among: []string{cniAuto, cniKeep}}
	fs.Var(&o.cniVersions, "cni-versions", "`what` CNI versions the installed list offers the container runtime: "+
		"all that the node's plugins support (auto), or those that it already has (keep)")
}

// runInstallCNI does the work of an init container.
func (o *options) runInstallCNI(ctx context.Context) node.Exit {
	files := o.cni
	if o.cniVersions.value == cniAuto {
		files.Ask = install.AskPlugin
	}
	self, err := os.Executable()
	if err != nil {
		return failed(err)
	}
	files.Plugin = filepath.Join(filepath.Dir(self), pluginName)
	written, note, err := files.Install(ctx)
	if note != "" {
		klog.Warning(note)
	}
	for _, path := range written {
		klog.Infof("installed %s", path)
	}
	if err != nil {
		return failed(err)
	}
	return node.Exit{Status: statusOK, Reason: "the CNI plugin and its configuration are in place"}
}
