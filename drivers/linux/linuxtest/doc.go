// Package linuxtest makes hosts for tests of the Linux driver: network
// namespaces with links that lead nowhere, and the actions of package drivertest
// done to them.
//
// It uses the netlink package, which the driver does only for IPsec policies: what
// one writes the other must read. It knows nothing of the driver; a test that wants
// one opens it in [Host.NS].
package linuxtest
