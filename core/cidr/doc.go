// Package cidr does prefix arithmetic on net/netip, once for both address
// families. It knows nothing about flannel and does no I/O.
package cidr
