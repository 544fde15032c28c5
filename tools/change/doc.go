// Package change shows how far the nodes of a cluster are with a change of the backend, by the config and the records
// in the datastore. A record is a claim: a node whose record offers the new backend has followed, as far as it says.
package change
