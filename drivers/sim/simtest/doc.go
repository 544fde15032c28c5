// Package simtest does the deeds of package drivertest to simulated hosts, so
// that tests can treat one as they treat a network namespace.
package simtest
