package harness

import (
	"context"
	"fmt"
	"strings"
)

// Block makes the host drop packets of a protocol ("icmp", "tcp" or "udp") to a port of
// the host itself (0: to every port), or ends that. Neighbour discovery still works.
func (h *Host) Block(ctx context.Context, protocol string, port uint16, on bool) error {
	table := fmt.Sprintf("inet blocked-%s-%d", protocol, port)
	// The script first creates what it deletes: older kernels have no "destroy".
	script := []string{"add table " + table, "delete table " + table}
	rules := []string{"meta l4proto " + protocol + " drop"}
	if protocol == "icmp" {
		rules = append(rules, "icmpv6 type { echo-request, echo-reply } drop")
	}
	if port != 0 {
		rules = []string{fmt.Sprintf("%s dport %d drop", protocol, port)}
	}
	if on {
		script = append(script, "add table "+table,
			"add chain "+table+" input { type filter hook input priority -10; }")
		for _, rule := range rules {
			script = append(script, "add rule "+table+" input "+rule)
		}
	}
	if err := h.nft(ctx, strings.Join(script, "\n")); err != nil {
		return fmt.Errorf("host %s: block %s: %w", h.Name, protocol, err)
	}
	return nil
}
