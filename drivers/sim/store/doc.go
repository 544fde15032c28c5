// Package store is the datastore of a simulated world: it behaves like etcd, or
// like Kubernetes node objects, in virtual time.
//
// It has revisions, compaction, TTLs, watches that are late, lost, duplicated
// or broken, requests that are lost or applied and then time out, and records
// that do not decode. A [Client] is a node's connection to it.
package store
