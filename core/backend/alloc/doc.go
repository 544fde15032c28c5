// Package alloc takes a lease and writes the subnet file; carrying packets is
// somebody else's job (interop 6.7).
package alloc
