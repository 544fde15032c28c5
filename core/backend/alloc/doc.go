// Package alloc takes a lease and writes the subnet file; another
// program carries the packets (interop 6.7).
package alloc
