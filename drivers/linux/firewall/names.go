package firewall

import (
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// place is where iptables has the chain of a hook. Names and comments are
// contract (interop 7.1).
type place struct {
	table   string
	shared  string // the shared chain at the hook
	own     string
	comment string
}

func placeOf(h dataplane.Hook) place {
	switch h {
	case dataplane.Forward:
		return place{table: "filter", shared: "FORWARD", own: "FLANNEL-FWD", comment: "flanneld forward"}
	case dataplane.Input:
		return place{table: "filter", shared: "INPUT", own: "FLANNEL-INPUT", comment: "flanneld guard"}
	}
	return place{table: "nat", shared: "POSTROUTING", own: "FLANNEL-POSTRTG", comment: "flanneld masq"}
}

// formerComments are the comments of rules that older releases put directly
// into a shared chain; one has a typo (interop 7.1).
var formerComments = [...]string{"flanneld masq", "flannel masq", "flanneld forward"}

// base is where nftables has the chain of a hook (interop 7.2).
type base struct {
	name     string
	kind     string
	hook     uint32 // NF_INET_*
	priority int32
	comment  string
}

func baseOf(h dataplane.Hook) base {
	switch h {
	case dataplane.Forward:
		return base{name: "forward", kind: "filter", hook: hookForward, priority: 0,
			comment: "chain to accept flannel traffic"}
	case dataplane.Input:
		return base{name: "input", kind: "filter", hook: hookInput, priority: 0,
			comment: "chain to guard unencrypted devices of flannel"}
	}
	return base{name: "postrtg", kind: "nat", hook: hookPostrouting, priority: 100,
		comment: "chain to manage traffic masquerading by flannel"}
}

// The numbers of the kernel's hooks (enum nf_inet_hooks).
const (
	hookInput       = 1
	hookForward     = 2
	hookPostrouting = 4
)

// words holds the tools' words for a family.
type words struct {
	ip        string // family and payload of nftables
	table     string // ours of nftables
	iptables  string
	procNames string // lists the tables of iptables-legacy
	bridge    string // exists if iptables sees packets that cross bridges
}

func wordsOf(f cidr.Family) words {
	return [...]words{
		{
			ip: "ip", table: "flannel-ipv4", iptables: "iptables",
			procNames: "/proc/thread-self/net/ip_tables_names", bridge: "/proc/sys/net/bridge/bridge-nf-call-iptables",
		},
		{
			ip: "ip6", table: "flannel-ipv6", iptables: "ip6tables",
			procNames: "/proc/thread-self/net/ip6_tables_names", bridge: "/proc/sys/net/bridge/bridge-nf-call-ip6tables",
		},
	}[f]
}
