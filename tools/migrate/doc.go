// Package migrate copies the network config and the leases of an etcd with the API v2,
// which flannel used up to v0.17 (interop 3.9), into today's datastore. It
// copies only in this direction, creates keys but changes none, and deletes
// nothing. The old store's answers are untrusted input.
package migrate
