// Command servers measures what one server of leases costs while many nodes watch:
// its memory and CPU time at a given rate of changes, and the time from a write until
// the nodes know of it.
//
// The server is a process of its own. This process runs the etcd, writes the
// changes and watches, as the nodes' streams do; it asserts only that every stream
// gets every change. The server's CPU time is the kernel's clock of its process.
package main
