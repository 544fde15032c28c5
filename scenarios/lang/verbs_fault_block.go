package lang

import (
	"fmt"
	"slices"
)

// faultBlock performs "fault n2 block icmp|tcp|udp [port=8472] [heal]": the host's own
// firewall drops packets of a protocol to the host, until the heal.
func faultBlock(s *Session, name string, n Node, a *args, _ string) error {
	on, protocol := !a.flag("heal"), a.word("protocol")
	port := 0
	a.integer("port", &port)
	if err := a.done(); err != nil {
		return err
	}
	if !slices.Contains([]string{"icmp", "tcp", "udp"}, protocol) || port < 0 || port > 65535 {
		return fmt.Errorf("fault block %s port=%d: want icmp, tcp or udp, and a port up to 65535", protocol, port)
	}
	b, err := able[Blocker](s, n)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s block %s %d", name, protocol, port)
	return setting(s, what, on, func(on bool) error { return b.Block(protocol, uint16(port), on) })
}

// faultChecksums performs "fault n2 checksums [heal]": the network card computes wrong
// checksums of TCP and UDP inside VXLAN, until the heal.
func faultChecksums(s *Session, name string, n Node, a *args, _ string) error {
	on := !a.flag("heal")
	card, err := afterArgs[ChecksumSpoiler](s, n, a)
	if err != nil {
		return err
	}
	return setting(s, name+" checksums", on, card.SpoilChecksums)
}
