// Package flannelctl is the command line of the operator's tool. It holds the commands and
// their flags, one file each; the packages beside it do the work. It is a package, and not a
// program alone, since flanneld is flannelctl where it is called by that name: the image has
// both in one file.
package flannelctl
