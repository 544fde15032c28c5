// Package remote keeps leases at flannel servers, for nodes that hold no
// credentials of etcd. Its [Store] is a [lease.Store] over the HTTP API of package
// api; package server is the other side.
//
// The store follows one server at a time, over a stream that begins with a whole
// snapshot, or with the changes since a state that both know. When the stream
// ends, the store continues at the next server. Servers keep no state of their own,
// and the revisions are etcd's, so it does not matter which server answers.
//
// Each change is a compare-and-swap in etcd. A request that certainly changed nothing
// goes to the next server; one without an answer has an unknown outcome.
//
// With a server of v0.5 to v0.7 the store speaks the old API, which has no
// compare on revision: it renews and updates by overwriting, takes the subnet that
// the server chooses, and cannot move a lease.
package remote
