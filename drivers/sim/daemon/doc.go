// Package daemon runs a node of the core on a simulated host: its process, its
// files, and its end at any moment.
//
// A [Daemon] performs a node's effects as events in virtual time; core/agent
// performs them on goroutines. Faults pause it, kill it between any
// two effects, tear its writes, and set its clock wrong.
package daemon
