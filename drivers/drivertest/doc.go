// Package drivertest is the conformance suite that every [driver.Lane] passes.
// Its cases are files under testdata. Their results were recorded from the Linux
// kernel and are never edited to suit an implementation.
//
// A driver's own test calls [Run] with a function that makes a fresh [World],
// a firewall's [RunFirewall] with one that makes a [FirewallWorld].
// The package touches no operating system itself, so the same cases run on the
// kernel and on a simulator.
package drivertest
