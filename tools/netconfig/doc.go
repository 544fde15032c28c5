// Package netconfig shows the effects of a network config before nodes read it: the
// daemon's errors and warnings, the ranges of subnets, and the leases that would
// not fit.
package netconfig
