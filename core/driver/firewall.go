package driver

import (
	"context"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// Firewall reads and changes the packet filter of one host. Its calls are made
// one at a time, but beside those of the host's [Driver]: a packet filter may
// keep its callers waiting for a lock that somebody else holds, and routes
// shall not wait with them.
type Firewall interface {
	// Inspect reads which chains of ours there are, of both flavours and
	// whoever made them, and what the host's packet filter is like. Of a
	// flavour that the host does not have, there are none. The state holds
	// nothing but chains.
	Inspect(ctx context.Context) (FirewallFacts, dataplane.State, error)

	// Apply performs ops on chains as [Driver] does. Chains of one flavour and
	// family that follow one another are changed in one transaction, so either
	// all of them are, or each op has the error.
	Apply(ctx context.Context, ops []dataplane.Op) []error

	// Hints receives a value when the packet filter may have changed. Like
	// Driver.Hints it is lossy, and may stay silent for good.
	Hints() <-chan struct{}
}

// FirewallFacts is what the packet filter of a host can do, and what others
// have it do with packets that flannel wants to pass. Equal hosts give equal
// facts.
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
