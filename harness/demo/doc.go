// Package demo shows a newcomer flannel at work: three nodes with a pod on each, pings
// from every pod to every pod, a device that breaks and heals, and the peers of each
// node as flannelctl shows them.
//
// It is the body of a program on top of package harness, and writes plain text.
package demo
