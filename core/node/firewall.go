package node

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/reconcile"
)

// ruleGap is the shortest time between two looks at the firewall that hints
// asked for. On a host with many services, other programs change rules all the
// time.
const ruleGap = time.Second

// firewallState holds the last look at the firewall and the conclusions from it.
type firewallState struct {
	facts    driver.FirewallFacts
	have     *dataplane.State
	notes    []string         // for the operator
	problems []error          // why the desired chains cannot be made or have no effect
	blocked  []error          // those of problems for which no packet is forwarded
	aim      aim              // of the last comparison
	want     *dataplane.State // as of the last comparison; nil: none yet
}

// aim holds the inputs of the desired chains besides the host.
type aim struct {
	net   config.Network
	own   lease.Key
	apart []netip.Prefix
	guard [2][]firewall.Guard

	leaves bool // see [Node.leaves]
}

func (n *Node) aims() aim {
	return aim{n.network.config, n.lease.self.Key, n.apart(), n.transition.Guards(n.records()), n.leaves()}
}

func (a aim) same(b aim) bool {
	return a.own == b.own && a.leaves == b.leaves && a.net.V4 == b.net.V4 && a.net.V6 == b.net.V6 &&
		a.net.EnableNFTables == b.net.EnableNFTables && slices.Equal(a.apart, b.apart) &&
		slices.EqualFunc(a.guard[cidr.V4], b.guard[cidr.V4], firewall.Guard.Same) &&
		slices.EqualFunc(a.guard[cidr.V6], b.guard[cidr.V6], firewall.Guard.Same)
}

// firewallPart is the lane of the firewall: flannel's chains and the jumps to them.
type firewallPart struct{ n *Node }

func (p firewallPart) pace() pace {
	n := p.n
	most := n.opts.Rules
	if !n.filters() {
		most = n.opts.Resync
	}
	// Jitter adds at most a fifth, so the longest interval is Rules.
	return pace{every: n.opts.Rules * 5 / 6, hintGap: ruleGap, most: most}
}

// watches returns false if no rules are desired and none are left to remove.
func (p firewallPart) watches() bool {
	return p.n.filters() || !p.n.lanes[FirewallLane].clean
}

// filters reports whether rules are desired, or guards are left of a device that is.
func (n *Node) filters() bool { return n.needsRules() || n.leaves() }

// needsRules reports whether the operator or an unencrypted device needs rules.
func (n *Node) needsRules() bool {
	guards := n.transition.Guards(n.records())
	return n.opts.Firewall.Any() || len(guards[cidr.V4])+len(guards[cidr.V6]) > 0
}

func (p firewallPart) follow() bool {
	n := p.n
	if !n.removal.begun() && (!n.network.known || !n.lease.self.Key.IsValid()) {
		return false
	}
	if a := n.aims(); !a.same(n.firewall.aim) {
		n.firewall.aim = a
		n.lanes[FirewallLane].retarget(n.now)
	}
	return true
}

// apart returns the address space of the other networks of the host. Until the datastore tells, it is
// that of the last run: a start while the datastore is away must not open the way between networks.
func (n *Node) apart() []netip.Prefix {
	if n.store.view.Beside == nil && n.store.saved != nil {
		return n.store.saved.Apart
	}
	return n.store.view.Beside.Apart()
}

// look names the networks: where several nodes share the chains, those tell which
// rules are the node's own.
func (p firewallPart) look() Look {
	return Look{Extent: dataplane.Extent{Networks: p.n.host.networks}}
}

func (p firewallPart) take(looked Looked) {
	p.n.firewall.facts = looked.Seen.Facts.(driver.FirewallFacts)
	p.n.firewall.have = looked.Seen.State
}

func (p firewallPart) tables() (want, have *dataplane.State) {
	return p.n.firewall.want, p.n.firewall.have
}

func (p firewallPart) compare() ([]dataplane.Op, bool) {
	n, f := p.n, &p.n.firewall
	opts := n.opts.Firewall
	opts.Guards = f.aim.guard
	if n.removal.begun() {
		opts = firewall.Options{}
	}
	wanted := firewall.Render(opts, f.aim.net, f.aim.own, f.facts, f.aim.apart...)
	if f.aim.leaves {
		wanted.KeepGuards(f.have, n.host.networks)
	}
	wanted.Keep(f.have, n.host.networks)
	if failures := n.lanes[FirewallLane].failures; len(failures) > 0 && !n.transition.Guarded(n.facts()) {
		wanted.Notes = append(wanted.Notes, "the packet filter does not keep other hosts than peers from the unencrypted "+
			"device: "+textOf(failures))
	}
	f.notes, f.problems = wanted.Notes, wanted.Problems
	f.blocked = wanted.Blocked
	f.want = wanted.Chains
	n.once(Info, "firewall-note", strings.Join(f.notes, "; "))
	n.once(Error, "firewall-problem", textOf(f.problems))
	return reconcile.Chains(wanted.Chains, f.have), true
}

func (firewallPart) retries([]dataplane.Op) bool { return false }

func (firewallPart) failed(op dataplane.Op, err error) error {
	return fmt.Errorf("%s: %w", nameChain(op), err)
}

func (firewallPart) describe(plan []dataplane.Op) string {
	names := make([]string, len(plan))
	for i, op := range plan {
		names[i] = nameChain(op)
	}
	return strings.Join(names, ", ")
}

func (p firewallPart) settled() string {
	p.n.forgetOld()
	return fmt.Sprintf("the firewall is as desired: %d chains", p.n.firewall.want.Len())
}

// firewallTools names the programs that make the desired chains, such as "iptables
// v1.8.11 (nf_tables)". It is empty if none are desired.
func (n *Node) firewallTools() string {
	var tools []string
	if n.firewall.want == nil {
		return ""
	}
	for key := range n.firewall.want.Chains {
		tools = append(tools, n.firewall.facts.Tools[key.Family].Of(key.Flavour).About)
	}
	slices.Sort(tools)
	return strings.Join(slices.Compact(tools), ", ")
}

// nameChain describes an op by its verb and its chain, without the rules.
func nameChain(op dataplane.Op) string {
	return fmt.Sprintf("%s %s", op.Verb, op.Object.(dataplane.Chain).ChainKey)
}

// reasons returns nothing if no rules are needed: leftover rules that cannot be
// removed cut no pod off from the network.
func (p firewallPart) reasons() (rs []string) {
	n := p.n
	if !n.needsRules() {
		return nil
	}
	unfinished := "the rules are not yet as desired"
	if !n.lease.self.Key.IsValid() || len(n.firewall.problems) > 0 {
		unfinished = ""
	}
	for _, problem := range n.firewall.problems {
		rs = append(rs, fmt.Sprintf("firewall: %v", problem))
	}
	return append(rs, n.lanes[FirewallLane].troubles("its rules", unfinished)...)
}
