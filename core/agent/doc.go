// Package agent runs a [node.Node] against a real host and a real lease store.
//
// It is the only package of core with goroutines, a clock and files. One loop
// owns the node; workers perform the [node.Effects] and return the results as
// inputs. The agent decides nothing about networks or leases: every decision
// that needs no waiting belongs in package node, where the simulator runs it
// too.
//
// The agent uses drivers and stores through the interfaces of packages driver
// and lease, and imports no implementation.
package agent
