// Package config parses the network config that all nodes of a cluster share,
// derives absent values and checks the others (interop section 2).
package config
