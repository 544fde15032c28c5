// Package dataplane describes the kernel objects that make up one host's part
// of the overlay, as plain values.
//
// A [State] is a set of such objects keyed so that two states compare by value:
// the desired state of a backend, the observed one of a driver, the expected one
// of a scenario. An [Op] is one change to one object. Links are named, never
// numbered: a link that is made again keeps its name and gets another ifindex.
//
// The package computes nothing about flannel and touches no kernel.
package dataplane
