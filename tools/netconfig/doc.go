// Package netconfig tells what a network config means before nodes read it: the
// errors and warnings of the daemon, the ranges of subnets, and the leases that
// would not fit.
package netconfig
