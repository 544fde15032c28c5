// Package machine runs a part of this system as a machine of its own: with namespaces,
// cgroups and a root file system, which is a layer over this system's root. The first
// process of a machine is this program, which starts the machine's other programs.
// A machine may also be in a virtual machine of package vm, whose root is this system's.
//
// The kernel kills all of it when the program ends, however it ends, and a reaper then
// removes the cgroups. It needs root, and the program has to call [Child] first.
//
// The package knows nothing about flannel.
package machine
