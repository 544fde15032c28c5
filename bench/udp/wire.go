package main

import (
	"fmt"
	"os/exec"
)

// segmentation lists the features with which a wire takes one packet that
// stands for dozens. Without them the kernel cuts packets just before the wire,
// and joins them behind it, which a veth does only with gro on.
var segmentation = []string{"tso", "tx-udp-segmentation", "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation"}

// setOffload switches segmentation on the wire between the nodes.
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
