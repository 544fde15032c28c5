package driver

import (
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// FirewallFacts describe the tools of a host's firewall, and the foreign rules
// that block flannel's packets. Equal hosts give equal facts.
//
// The lane that reports them holds chains only. Its looks ignore the extent and
// return all flannel chains of both flavours, whichever program made them. It
// applies successive ops on chains of one flavour and family in one transaction:
// either all are performed, or each of them has the error.
type FirewallFacts struct {
	Tools  [2]Tools       // by family
	Blocks []ForwardBlock // in a fixed order
}

// Tools are the tools for a family's chains.
type Tools struct {
	IPTables Tool // iptables or ip6tables
	NFTables Tool // nft
	// BridgeFilter means that iptables sees packets that cross a bridge
	// (net.bridge.bridge-nf-call-iptables exists; module br_netfilter).
	BridgeFilter bool
}

// Of returns the tool for a flavour's chains.
func (t Tools) Of(f dataplane.Flavour) Tool {
	if f == dataplane.NFTables {
		return t.NFTables
	}
	return t.IPTables
}

// Tool makes the chains of one flavour and family.
type Tool struct {
	Usable bool
	// About is its version, such as "iptables v1.8.11 (nf_tables)", or why it
	// cannot be used, such as "no ip6tables in $PATH".
	About       string
	RandomFully bool // it can choose source ports at random
}

// ForwardBlock is a policy or a rule of another program that drops forwarded
// packets, such as the policy DROP of the chain FORWARD.
type ForwardBlock struct {
	Family cidr.Family
	By     string // names it: "policy DROP of chain FORWARD in table ip filter"
	// OverriddenBy names the flavour whose chain can accept a packet before the
	// block drops it; empty: no chain of flannel can.
	OverriddenBy dataplane.Flavour
	// Doubtful means that a foreign rule before the block may accept packets, so
	// a driver cannot say which packets the block drops.
	Doubtful bool
}
