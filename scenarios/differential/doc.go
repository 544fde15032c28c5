// Package differential compares the simulator with the kernel: it performs the
// same random steps on a network namespace and on a simulated host, and compares
// both drivers' answers and readings after each.
//
// A run is a list of [Step]s, lines of the language of package drivertest. It is
// drawn from a source of bytes: a seeded stream for the bounded test, the fuzzer's
// input for the long one. Names and values come from a small universe, so most
// steps meet objects of earlier ones. If the worlds differ, the package shrinks the
// run to the steps that matter and prints it as a case for
// drivers/drivertest/testdata. The kernel is always right.
package differential
