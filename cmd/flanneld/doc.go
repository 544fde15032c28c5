// Flanneld is flannel's node daemon: flags and environment in, exit status out.
// Package core/agent does the work in between; this package only chooses the
// parts and connects them. When called by the name flannelctl, it is the operator's tool.
package main
