package main

import (
	"fmt"
	"os/exec"
)

// segmentation are the features by which a wire takes what is dozens of packets
// as one. Without them the kernel cuts just before the wire, and joins behind it,
// which a veth does only if told (gro).
var segmentation = []string{"tso", "tx-udp-segmentation", "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation"}

// setOffload says whether the wire between the nodes segments.
func (w *world) setOffload(on bool) error {
	value := "off"
	if on {
		value = "on"
	}
	for i, n := range w.nodes {
		args := []string{"-K", "eth0", "gro", "on"}
		for _, f := range segmentation {
			args = append(args, f, value)
		}
		cmd := exec.Command("ethtool", args...)
		if err := inside(n.ns, cmd.Run); err != nil {
			return fmt.Errorf("ethtool -K on node %d of %s: %w", i, w.way, err)
		}
	}
	return nil
}
