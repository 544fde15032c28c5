package harness

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Disturbance describes how a segment disturbs packets. The kernel decides
// about each packet by itself; lost packets vanish without an error. It spares
// packets that resolve addresses: their loss would outlast the disturbance.
type Disturbance struct {
	Loss float64 // probability
	MTU  int     // drop packets larger than this; 0: no limit
}

// Disturb sets the disturbance of the node's cable, in both directions, in
// place of the former one.
func (n *Node) Disturb(ctx context.Context, d Disturbance) error {
	cable := []string{"iifname " + quote(n.Name), "oifname " + quote(n.Name)}
	return n.segment.filter(ctx, "wire-"+n.Name, d.rules(cable))
}

// DisturbSegment is Disturb for a whole segment, by its number from 0.
func (l *Lab) DisturbSegment(ctx context.Context, segment int, d Disturbance) error {
	if segment < 0 || segment >= len(l.segments) {
		return fmt.Errorf("disturb segment %d: there are %d", segment, len(l.segments))
	}
	return l.segments[segment].filter(ctx, "wire", d.rules([]string{""}))
}

// outOf is the denominator of the probabilities for nftables.
const outOf = 1_000_000

// rules returns the nftables rules that disturb the matching packets.
func (d Disturbance) rules(matches []string) []string {
	var rules []string
	for _, m := range matches {
		if d.MTU > 0 {
			rules = append(rules, fmt.Sprintf("%s meta length > %d drop", m, d.MTU))
		}
		switch {
		case d.Loss >= 1:
			rules = append(rules, m+" drop")
		case d.Loss > 0:
			rules = append(rules, fmt.Sprintf("%s numgen random mod %d < %d drop", m, outOf, int(d.Loss*outOf)))
		}
	}
	return rules
}

// PartFrom keeps the packets of another node from reaching this one, or ends
// that. Packets to the other node still arrive.
func (n *Node) PartFrom(ctx context.Context, other *Node, on bool) error {
	name := "part-" + other.Name + "-" + n.Name
	if !on {
		return n.segment.filter(ctx, name, nil)
	}
	port := "oifname " + quote(n.Name)
	var rules []string
	for _, f := range n.lab.families() {
		key := [2]string{"ip", "ip6"}[f]
		rules = append(rules, fmt.Sprintf("%s %s saddr %s drop", port, key, other.Underlay(f).Addr()))
	}
	link, err := other.link(uplink)
	if err != nil {
		return err
	}
	rules = append(rules, fmt.Sprintf("%s ether saddr %s drop", port, link.Attrs().HardwareAddr))
	return n.segment.filter(ctx, name, rules)
}

// filter puts rules on the segment's forwarding, under a name; without rules it
// removes the former ones.
func (s *segment) filter(ctx context.Context, name string, rules []string) error {
	// The script first creates what it deletes: older kernels have no
	// "destroy".
	script := []string{"add table bridge " + name, "delete table bridge " + name}
	if len(rules) > 0 {
		script = append(script, "add table bridge "+name,
			"add chain bridge "+name+" forward { type filter hook forward priority 0; }",
			"add rule bridge "+name+" forward ether type arp accept",
			"add rule bridge "+name+" forward icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept")
	}
	for _, rule := range rules {
		script = append(script, "add rule bridge "+name+" forward "+rule)
	}
	if err := s.sw.nft(ctx, strings.Join(script, "\n")); err != nil {
		return fmt.Errorf("segment %d: %s: %w", s.index, name, err)
	}
	return nil
}

// nft runs a script of nftables inside the host.
func (h *Host) nft(ctx context.Context, script string) error {
	path, err := exec.LookPath("nft")
	if err != nil {
		return fmt.Errorf("%w: install the package nftables", err)
	}
	var said strings.Builder
	p, err := h.space.Start(&exec.Cmd{Path: path, Args: []string{"nft", "-f", "-"},
		Stdin:  strings.NewReader(script + "\n"),
		Stdout: &said, Stderr: &said})
	if err != nil {
		return err
	}
	state, err := p.Wait(ctx)
	if err != nil {
		return errors.Join(err, p.Kill())
	}
	if !state.Success() {
		return fmt.Errorf("nft: %v: %s", state, said.String())
	}
	return nil
}

// quote returns a name in the form of nftables.
func quote(name string) string { return fmt.Sprintf("%q", name) }
