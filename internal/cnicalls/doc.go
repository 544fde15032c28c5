// Package cnicalls counts the calls of the CNI plugin. Each call is a process of its own, and the
// daemon serves the numbers: the plugin adds to a small file beside the subnet file, under a lock,
// and the daemon reads it when it is scraped.
//
// The file has a line for each command, with the numbers of calls that succeeded and failed:
//
//	ADD 00000000000000000012 00000000000000000001
//
// A file of another form counts as none, and the next call begins anew. Nothing that it may contain
// becomes more than a number.
package cnicalls
