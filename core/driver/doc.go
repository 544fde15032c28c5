// Package driver defines what the core needs from an operating system: the
// [Lane] interface, the facts that a lane reports, and its classes of errors.
//
// The core owns the interface. Implementations live under drivers/, where package
// drivertest holds the cases that each of them passes.
package driver
