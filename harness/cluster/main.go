package cluster

import (
	"fmt"
	"os"

	"github.com/flanneld/flannel/harness"
)

// The names under which this program runs itself as a part of the cluster.
const (
	childNode   = "flannel-cluster-node"
	childInit   = "flannel-cluster-init"
	childEtcd   = "flannel-cluster-etcd"
	childReaper = "flannel-cluster-reaper"
)

// Main is the TestMain of a package that starts clusters.
func Main(m interface{ Run() int }) {
	Reexec()
	os.Exit(m.Run())
}

// Reexec must be called first in main. It runs those parts of a cluster that are this
// program, and moves any other run into namespaces in which a cluster may be built.
func Reexec() {
	var err error
	switch os.Args[0] {
	case childNode:
		err = enterNode()
	case childInit:
		err = serveInit(os.Stdin, os.Stdout, logDir)
	case childEtcd:
		err = serveEtcd(os.Args[1:])
	case childReaper:
		err = reapCgroups(os.Stdin, os.Args[1:])
	default:
		harness.Reexec()
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		os.Exit(1)
	}
	os.Exit(0)
}
