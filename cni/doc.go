// Package cni is the CNI plugin "flannel" (CNI spec 1.1, interop 4.2). It makes
// no interface itself: it reads the subnet file that flanneld writes, completes
// the configuration of another plugin with the node's subnet, network and MTU,
// and lets that one, bridge by default, do the work.
//
// One container, step by step:
//
//	ADD     subnet file → configuration of the delegate → kept as
//	        <dataDir>/<container id> → delegate ADD → its result is ours
//	CHECK   delegate CHECK with what was kept
//	DEL     delegate DEL with what was kept, then the file goes. The subnet file
//	        may have changed or gone since: what was kept counts
//	GC      delegate GC, then what was kept for containers that are gone goes
//	STATUS  is the subnet file there and whole, can the delegate work
//
// The package knows the subnet file and the plugin protocol. It knows no kernel
// and talks to no daemon.
package cni
