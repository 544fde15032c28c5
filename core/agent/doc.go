// Package agent runs a [node.Node] against a real host and a real lease store.
//
// It is the one place in core with goroutines, a clock and files. One loop
// owns the node; workers perform what [node.Effects] asks for and bring the
// results back as inputs. The agent decides nothing about networks or leases:
// whatever can be decided without waiting belongs in package node, where the
// simulator reaches it too.
//
// Drivers and stores come in through the interfaces of packages driver and
// lease; the agent imports none.
package agent
