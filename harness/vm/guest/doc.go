// Package guest is the first process of a virtual machine of package vm.
//
// It loads the modules that the machine needs to reach its disks, mounts the
// host's root file system read-only below a writable layer in memory, and then
// runs the commands that the host sends. It knows nothing about flannel. It runs
// only as process 1 of a machine: elsewhere its mounts would do harm.
package guest
