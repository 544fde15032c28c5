// Package oracle derives the state that a host must have from the network config,
// the host's surroundings and the records in the store. [Demanded] returns that
// state, and [Demand.Short] names the objects that are missing or left over.
//
// It follows the contract with upstream (interop 6 and 7: backends and
// firewall) and not the code under test. The package must not import the packages
// that compute the daemon's own answer: backend, reconcile, firewall, config,
// uplink, node.
package oracle
