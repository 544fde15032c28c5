// Command udp measures how fast two nodes carry packets: by the udp backend's
// tiers, by the kernel's vxlan, and with nothing in between (raw).
//
// Each way has two nodes of its own, network namespaces with a wire between
// them, and a pod behind a bridge on each. The ways take turns in short rounds,
// so that whatever else the machine does slows all of them, and what is printed
// are medians and their ratios to vxlan. Nothing is asserted. The load, and the
// process that carries packets, share the machine's processors.
//
// It needs root. `make bench-udp` runs it; docs/udp.md keeps a table.
package main
