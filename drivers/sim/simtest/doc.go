// Package simtest makes the changes of package drivertest on simulated hosts,
// so that tests can treat one like a network namespace.
package simtest
