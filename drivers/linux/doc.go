// Package linux is the [driver.Lane] of the Linux kernel: it reads and
// changes links, addresses, routes, neighbours and FDB entries over rtnetlink,
// and settings below /proc/sys, and runs the packet paths of the udp backend
// (package tunnel).
//
// It holds no opinion, and no memory but of the paths it runs: what an op says
// is done, what the kernel says is reported. A thousand ops cost a few system
// calls, because runs of neighbours, FDB entries and routes are sent as one
// batch and only the last message of a batch asks for an answer; a dump is read
// into one buffer and parsed there without copies.
//
// Messages are written and parsed here instead of by the netlink package,
// which takes three times the time and eight times the memory to read the
// tables of 5,000 peers (BenchmarkLookByLibrary) and cannot batch.
package linux
