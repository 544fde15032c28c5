// Package charon is a model of strongSwan's IKE daemon on a simulated host, and the
// lane by which a node controls it.
//
// It agrees on keys with the daemons of other hosts by datagrams on the simulated
// network, so losses, partitions and firewalls delay it as they do the real one. The
// exchange is one request and one answer, which prove that both sides have the same
// shared key. The keys go to the host's kernel (package kernel), which encrypts.
//
// As with the real one, keys in the kernel survive a daemon that is killed, and a daemon
// that ends in order takes them along and tells the peers. Keys are never renewed.
package charon
