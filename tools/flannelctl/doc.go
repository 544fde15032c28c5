// Package flannelctl is the command line of the operator's tool. It holds the commands and
// their flags, one file each; the packages beside it do the work. It is a package because
// flanneld runs it too, when it is called by the name flannelctl: the image has both in one
// file.
package flannelctl
