package cluster

import (
	"os"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/harness/internal/machine"
)

// childEtcd is the name under which this program runs itself as the cluster's etcd.
const childEtcd = "flannel-cluster-etcd"

// Main is the TestMain of a package that starts clusters.
func Main(m interface{ Run() int }) {
	Reexec()
	os.Exit(m.Run())
}

// Reexec must be called first in main. It runs those parts of a cluster that are this
// program, and moves any other run into namespaces in which a cluster may be built.
func Reexec() {
	run := machine.Child(os.Args[0])
	if os.Args[0] == childEtcd {
		run = serveEtcd
	}
	machine.RunChild(run)
	harness.Reexec()
}
