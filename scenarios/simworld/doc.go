// Package simworld builds the topologies of scenarios in the simulator and
// watches all invariants there. The seed determines every random choice.
package simworld
