// Package dockerlab runs a Docker engine on nodes of a lab: containerd and dockerd of
// Debian's packages, started as the drop-in for Docker's unit (deploy/host) says.
//
// An engine has the network of its node and otherwise a machine of its own, with a root
// file system, processes and cgroups. The kernel kills all of it when the program ends,
// however it ends, and a reaper then removes the cgroups.
//
// The engine of [NewBuilder] is on no node. It builds images, for which it has the network of this system.
//
// It needs root and the programs of hack/docker-programs.
package dockerlab
