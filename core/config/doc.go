// Package config parses the network config that all nodes of a cluster share,
// derives what it leaves out and checks it (interop section 2).
package config
