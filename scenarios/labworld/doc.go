// Package labworld builds the topologies of scenarios in network namespaces,
// with real daemons, a real etcd and the real kernel.
package labworld
