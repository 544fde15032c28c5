// Package dataplane describes the kernel objects that make up one host's part
// of the overlay, as plain values.
//
// A [State] is a set of such objects keyed so that two states compare by value:
// what a backend wants, what a driver read back, what a scenario expects. An
// [Op] is one change to one object. Links are named, never numbered: an ifindex
// changes when a link is recreated, a name does not.
//
// The package computes nothing about flannel and touches no kernel.
package dataplane
