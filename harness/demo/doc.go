// Package demo shows flannel at work to a newcomer: three
// nodes, a pod on each, every pod pinged from every pod, a device broken and
// healed, and the peers of each node as flannelctl shows them.
//
// It is a program's body on top of package harness, and writes plain text.
package demo
