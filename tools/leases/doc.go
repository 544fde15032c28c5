// Package leases shows and changes the records of a datastore. It changes a record
// only as it was read, and deletes one only if the operator names its owner.
package leases
