// Package extension runs the operator's commands, which carry the packets (interop 6.8).
//
// The network config holds texts for the shell. PreStartupCommand runs before the
// node asks for a lease, and its output becomes the node's BackendData;
// PostStartupCommand runs with the lease; SubnetAddCommand and
// SubnetRemoveCommand run for each peer; ShutdownCommand runs at an orderly stop.
//
// The package renders each as a desired [dataplane.Command]: a text, the text
// that undoes it, and data. Data of peers reaches a command only as values of its
// environment, rendered from parsed addresses, and as standard input.
package extension
