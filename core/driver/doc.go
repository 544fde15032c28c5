// Package driver says what the core asks of an operating system: the [Driver]
// interface, the [Facts] it reports and the classes of errors it returns.
//
// The consumer owns the interface: implementations live under drivers/, and
// package drivertest holds the cases every one of them passes.
package driver
