// Package embedded runs an etcd of one member inside this process: the default
// datastore of a first installation, and the lab's.
//
// It answers at a unix socket in its data directory, which is closed to other
// users. Any other address is for hosts of trusted networks or needs
// certificates, which the caller demands. It knows nothing about leases; package
// etcd is the store that uses it.
package embedded
