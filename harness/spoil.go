package harness

import (
	"context"
	"fmt"

	"github.com/flanneld/flannel/core/dataplane"
)

// SpoilChecksums makes the checksums wrong that TCP and UDP over IPv4 have inside the node's
// VXLAN packets on the wire, as some network cards do, or ends that. ICMP is left alone. Unlike
// with such a card, it does not help that the kernel computes the checksums.
func (n *Node) SpoilChecksums(ctx context.Context, on bool) error {
	feature := dataplane.FeatureOn
	var rules []string
	if on {
		// Otherwise no packet of the lab holds a checksum: the kernel leaves it to the devices.
		feature = dataplane.FeatureOff
		rules = spoilRules(n.Name)
	}
	err := n.Apply(ctx, dataplane.Op{Verb: dataplane.Replace, Object: dataplane.TxChecksum(uplink, feature)})
	if err != nil {
		return err
	}
	return n.segment.filter(ctx, "checksums-"+n.Name, rules)
}

// spoilRules overwrites the checksum fields of the packets from a port.
func spoilRules(port string) []string {
	const (
		vxlanPort = 8472       // on Linux
		before    = 8 + 8 + 14 // the headers of UDP, VXLAN and Ethernet before the packet inside, in bytes
		ethertype = before - 2
		protocol  = before + 9
		transport = before + 20 // the packets have no IP options
		wrong     = 0xbad1
	)
	field := func(offset, bytes int) string { return fmt.Sprintf("@th,%d,%d", 8*offset, 8*bytes) }
	var rules []string
	for protocolNumber, checksum := range map[int]int{6: 16, 17: 6} {
		rules = append(rules, fmt.Sprintf("iifname %s udp dport %d %s 0x0800 %s %d %s set %d", quote(port), vxlanPort,
			field(ethertype, 2), field(protocol, 1), protocolNumber, field(transport+checksum, 2), wrong))
	}
	return rules
}
