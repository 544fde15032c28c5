// Package embedded runs an etcd of one member inside this process: the default
// datastore of a first installation, and the lab's.
//
// It listens on loopback by default and asks for no password, so any other
// address is for trusted networks only. It knows nothing about leases; package
// etcd is the store that uses it.
package embedded
