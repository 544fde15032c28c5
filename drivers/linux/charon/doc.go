// Package charon is the lane of the IKE daemon on Linux: it runs strongSwan's charon as
// a child of this process and gives it keys and connections over its control socket
// (VICI).
//
// The child has a configuration file of its own, so no configuration of another
// IKE daemon on the host is read or changed. It dies with this process, and a killed
// child leaves its keys in the kernel, where packets go on using them.
//
// VICI reports of a connection its name, addresses and subnets, and neither
// proposals nor the use of UDP; of a key it reports a name. So the driver remembers
// what it has loaded into the child, and calls everything else foreign.
package charon
