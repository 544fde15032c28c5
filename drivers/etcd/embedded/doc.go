// Package embedded runs an etcd of one member inside this process: the
// newcomer's default datastore, and the lab's.
//
// It listens on loopback unless told otherwise and asks for no password, so
// an address that others can reach is for trusted networks only. It knows
// nothing of leases; the store over it is package etcd's.
package embedded
