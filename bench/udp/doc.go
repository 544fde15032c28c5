// Command udp measures how fast two nodes carry packets: by the udp backend's
// tiers, by upstream's own daemon with that backend, by WireGuard in userspace or in the
// kernel, by the kernel's vxlan, and with nothing in between (raw).
//
// Each way has two nodes of its own, network namespaces with a wire between
// them, and a pod behind a bridge on each. The ways take turns in short rounds,
// so that other work on the machine slows all of them alike. The command prints
// medians and their ratios to vxlan, and asserts nothing. The load and the
// process that carries packets share the machine's processors.
//
// It needs root. `make bench-udp` and `make bench-wireguard` run it;
// docs/udp.md and docs/benchmarks.md keep tables.
package main
