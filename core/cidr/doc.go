// Package cidr does prefix arithmetic on net/netip, once for both address
// families. It knows no flannel and does no I/O.
package cidr
