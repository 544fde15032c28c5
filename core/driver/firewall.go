package driver

import (
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// FirewallFacts are what the firewall of a host can do, and what foreign rules
// do with packets that flannel wants to pass. Equal hosts give equal facts.
//
// The lane that reports them holds chains only. Its looks ignore the extent and
// return every chain of flannel's, of both flavours, whichever program made it.
// It applies ops on chains of one flavour and family that follow one another in
// one transaction: either all are performed, or each of them has the error.
type FirewallFacts struct {
	Tools  [2]Tools       // by family
	Blocks []ForwardBlock // in a fixed order
}

// Tools says what a family's chains can be made with.
type Tools struct {
	IPTables Tool // iptables or ip6tables
	NFTables Tool // nft
	// BridgeFilter: packets that cross a bridge are shown to iptables
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
	// Doubtful: a rule of another program in front of the block may accept
	// packets, so nobody can say which ones the block drops.
	Doubtful bool
}
