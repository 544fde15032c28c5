// Package oracle derives what a host must hold from the network config, the
// host's surroundings and the records in the store: [Demanded] says what must
// be there, [Demand.Short] what a host lacks of it and what it has too much.
//
// The derivation follows the contract with upstream (interop 6 and 7) and not
// the code under test. The package must not import the packages that make the
// daemon's own answer: backend, reconcile, firewall, config, uplink, node.
package oracle
