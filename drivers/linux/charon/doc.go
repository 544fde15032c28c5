// Package charon is the lane of the IKE daemon on Linux: it runs strongSwan's charon as
// a child of this process and gives it keys and connections over its control socket
// (VICI).
//
// The child has a configuration file of its own, so it never reads or changes the
// configuration of another IKE daemon on the host. It dies with this process, and a
// killed child leaves its keys in the kernel, where packets keep using them.
//
// VICI reports the name, addresses and subnets of a connection, but not its
// proposals or its use of UDP; of a key it reports only a name. So the driver remembers
// what it has loaded into the child, and treats everything else as foreign.
package charon
