// Package servers tests the lease store of package remote and the servers of
// package server together, over a real etcd: the cases that every lease store
// passes, the end of a server, TLS and the rights of nodes, and both sides against
// stand-ins of the programs of v0.5 to v0.7, written from the contract.
package servers
