// Package hostpaths names the files that the daemon keeps on a host. The daemon
// writes them, and the operator's tool looks for them.
package hostpaths
