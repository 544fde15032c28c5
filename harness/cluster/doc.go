// Package cluster runs a whole Kubernetes cluster on this machine: etcd, API
// server, controller manager and scheduler, and nodes with containerd, kubelet and
// kube-proxy, on which deploy/kube-flannel.yml runs as users run it.
//
// Every node has namespaces, cgroups and a root file system of its own; its first
// process is this program, which starts the node's other programs. The underlay is
// a bridge in the network namespace of the test, so that nothing leaves this
// machine and no setting of the host changes. The kernel kills all of it when the
// test ends, however it ends, and a reaper then removes the cgroups.
//
// Some nodes may be virtual machines of package vm instead, whose kernel and cgroups are those of a
// stock Debian. In one of them the node is the same as elsewhere, with the guest's network and cgroups for
// its own. The control plane is not emulated, so it answers as fast as ever.
//
// One node runs a newer containerd than the others, since containerd 2 knows version 1.1 of
// CNI: it asks flannel's plugin for its STATUS.
//
// It needs root and the programs of make cluster-programs.
package cluster
