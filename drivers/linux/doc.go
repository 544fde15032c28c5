// Package linux is the [driver.Lane] of the Linux kernel's network tables. It
// reads and changes links, addresses, routes, neighbours and FDB entries over
// rtnetlink (package nl), the keys and peers of WireGuard devices over generic
// netlink, and settings below /proc/sys. It runs the packet paths of the udp backend
// (package tunnel) and WireGuard where the kernel has none (package wireguard).
// IPsec policies go through the netlink package.
//
// It decides nothing: it does what an op says and reports what the kernel says.
// It remembers the paths and WireGuard devices it runs, and for some seconds the
// routes that it has read, as long as the kernel announces no change of them
// (routememory.go). The kernel keeps to itself what concerns no watched object, such as the
// devices of pods.
//
// A thousand ops cost a few system calls: runs of neighbours, FDB entries and
// routes are sent as one batch, and only the last message of a batch asks for an
// answer. A dump is read into one buffer and parsed there without copies.
package linux
