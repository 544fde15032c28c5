// Package vm runs commands on a stock Debian kernel, in a virtual machine that
// QEMU emulates without KVM.
//
// The machine is for features that the kernel of this host lacks: wireguard, ipip,
// ESP. Its root file system is the host's, read-only, with a layer in memory above
// it. So a program that was built here runs there under the same path. Folders that
// the caller names are writable, and carry results out.
//
//	[Fetch]    downloads the kernel into a cache; nothing is installed
//	[Boot]     starts a machine, which takes about four seconds
//	[Machine]  runs commands, several at a time; they all end with it
//
// Emulation is slower than the host by a factor that [Machine.Slowness] measures;
// package pace stretches deadlines by it. QEMU needs no root. It dies with the
// thread that started it, so a machine never outlives its program, however that ends.
//
// The package knows nothing about flannel, and does not decide which tests run.
package vm
