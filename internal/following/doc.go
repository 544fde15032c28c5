// Package following holds the parts that lease stores have in common because each follows a datastore
// in the background: the goroutines that end with the store, the names of networks, and the defaults of its
// options. It knows no datastore.
package following
