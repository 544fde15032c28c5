// Package cni is the CNI plugin "flannel" (CNI spec 1.1, interop 4.2). It makes
// no interface itself: it reads the subnet file that flanneld writes, completes
// the configuration of another plugin, the delegate, with the node's subnet,
// network and MTU, and calls the delegate, which is bridge by default.
//
// The commands, for one attachment (an interface of a container in a network):
//
//	ADD     make the delegate's configuration from the subnet file, keep it below
//	        dataDir, take the addresses of former subnets off the delegate's bridge
//	        if there is no pod on it, call the delegate's ADD, note the addresses that
//	        the bridge has by it, return its result
//	CHECK   call the delegate's CHECK with the kept configuration, in the version of this
//	        call's result
//	DEL     call the delegate's DEL with the kept configuration, then remove it. The
//	        subnet file may have changed or gone since the ADD
//	GC      for each of this network's attachments that is gone, call the delegate's DEL with
//	        the kept configuration, then remove it; call the delegate's GC, which needs the
//	        subnet file
//	STATUS  check that the subnet file is complete and the delegate is able to work
//
// A mistake in the members delegate or ipam fails what attaches pods. A pod is detached all the same, unless its kept
// configuration is damaged.
//
// The package knows the subnet file and the plugin protocol. It knows no kernel, except
// in package bridge below, and talks to no daemon.
package cni
