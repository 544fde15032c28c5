// Package dockeropts writes the options with which dockerd puts its containers into
// the subnet of this host (interop 4.4), as deploy/host/mk-docker-opts.sh does. It
// reads the subnet file and the routes of the kernel, and changes one file.
package dockeropts
