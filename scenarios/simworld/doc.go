// Package simworld builds the topologies of scenarios in the simulator, with
// all invariants watched. The seed determines all chance.
package simworld
