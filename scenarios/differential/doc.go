// Package differential holds the simulator to the kernel: it does the same
// random things to a network namespace and to a simulated host, and compares
// after each what both drivers answered and what they read back.
//
// A run is a list of [Step]s, lines of the language of package drivertest,
// drawn from a source of bytes: a seeded stream for the bounded test, whatever
// the fuzzer makes up for the long one. Names and values come from a small
// universe, so that most steps meet what an earlier one made. A run in which
// the worlds part is shrunk to the steps that matter and printed as a case for
// core/driver/drivertest/testdata. The kernel is right.
package differential
