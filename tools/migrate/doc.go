// Package migrate copies the network config and the leases of an etcd with the API v2,
// which flannel used up to v0.17 (interop 3.9), into the datastore of today. It
// copies in this direction alone, creates keys and changes none, and deletes
// nothing. What the old store answers is untrusted input.
package migrate
