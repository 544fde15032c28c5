// Package charon is a model of strongSwan's IKE daemon on a simulated host, and the
// lane by which a node controls it.
//
// It negotiates keys with the daemons of other hosts by datagrams on the simulated
// network, so losses, partitions and firewalls delay it as they do the real one. As in
// IKEv2 (RFC 7296) a negotiation has two exchanges. In the first (IKE_SA_INIT) both sides
// draw numbers, in the second (IKE_AUTH) they prove with these numbers that they have the same
// shared key. So a late request of a former daemon completes nothing, unless the
// peer still waits for it. The keys go to the host's kernel (package kernel), which encrypts.
//
// A daemon sends a request again, unchanged, after the real daemon's pauses, and starts a
// negotiation without an answer over. A peer's first contact ends its former tunnels. A daemon
// that has heard nothing from a peer for a while asks whether the peer still has the tunnel.
//
// As with the real daemon, keys in the kernel survive a kill. A daemon that stops in order
// removes them and tells the peers once. The model never renews keys.
package charon
