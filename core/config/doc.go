// Package config parses the network config that all nodes of a cluster share,
// derives absent values and checks the rest (interop section 2).
package config
