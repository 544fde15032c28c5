// Package driver says what the core asks of an operating system: the [Lane]
// interface, the facts that a lane reports and the classes of errors it returns.
//
// The consumer owns the interface: implementations live under drivers/, and
// package drivertest holds the cases that every one of them passes.
package driver
