package lang

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/trace"
)

// TraceHost is a node whose kernel can say what it would do with a packet.
type TraceHost interface {
	// Kernel opens the kernel; done closes it.
	Kernel(context.Context) (k trace.Kernel, done func(), err error)
	// PodAddr returns the address of the node's pod; zero: there is none.
	PodAddr(cidr.Family) netip.Addr
}

// trace performs
//
//	trace n1.pod n2.pod [size=84] [probes] | trace all | trace agree [within=10s]
//
// It follows a packet over the hosts, as flannelctl trace does on each, and prints "n1
// leaves, n2 arrives", or where the packet ends: "n1 ends: fdb_missing". A daemon that
// carries packets itself may lack the peer: "n1 leaves (pending)". For all pairs it
// prints "all arrive", or the pairs whose packets do not. With probes it adds the finding
// of n1's probes about n2, if it is bad: "n1 leaves (probes: mtu)".
func (s *Session) trace(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	if a.flag("agree") {
		return "", s.traceAgrees(a)
	}
	size := 84
	a.integer("size", &size)
	probes := a.flag("probes")
	if a.flag("all") {
		if err := a.done(); err != nil {
			return "", err
		}
		return s.traceAll(size)
	}
	from, to := strings.TrimSuffix(a.word("from"), ".pod"), strings.TrimSuffix(a.word("to"), ".pod")
	if err := a.done(); err != nil {
		return "", err
	}
	var lines []string
	for _, f := range s.families {
		line, err := s.tracePair(from, to, f, traceOptions{size: size, probes: probes})
		if err != nil {
			return "", err
		}
		lines = append(lines, line)
	}
	return strings.Join(slices.Compact(lines), "\n"), nil
}

func (s *Session) traceAll(size int) (string, error) {
	var bad []string
	for _, from := range s.running() {
		for _, to := range s.running() {
			for _, f := range s.families {
				if from == to {
					continue
				}
				line, err := s.tracePair(from, to, f, traceOptions{size: size})
				if err != nil {
					return "", err
				}
				if !strings.HasSuffix(line, to+" arrives") {
					bad = append(bad, fmt.Sprintf("%s to %s: %s", from, to, line))
				}
			}
		}
	}
	if len(bad) > 0 {
		return strings.Join(bad, "\n"), nil
	}
	return "all arrive", nil
}

// pending marks a stage at which trace notes that the daemon may drop the packet.
const pending = " (pending)"

// traceOptions are the size of the packet, whether to show the findings of probes, and whether
// the daemon of each host says which nodes there are, in place of the datastore.
type traceOptions struct {
	size      int
	probes    bool
	asDaemons bool
}

// unsure follows the arrival of a packet that trace could not judge in all steps.
const unsure = " as far as known"

// tracePair follows a packet between the pods of two nodes.
func (s *Session) tracePair(from, to string, f cidr.Family, o traceOptions) (string, error) {
	flow := trace.Flow{Size: o.size}
	for name, addr := range map[string]*netip.Addr{from: &flow.Src, to: &flow.Dst} {
		h, err := nodeWith[TraceHost](s, name)
		if err != nil {
			return "", err
		}
		*addr = h.PodAddr(f)
		if !addr.IsValid() {
			return "", fmt.Errorf("%s has no pod with an %s address", name, f)
		}
	}
	return s.traceFlow(from, flow, o)
}

// traceFlow follows a packet from a node over the hosts.
func (s *Session) traceFlow(name string, flow trace.Flow, o traceOptions) (string, error) {
	known, err := s.traceKnown()
	if err != nil {
		return "", err
	}
	var stages []string
	for i := range s.top.Nodes { // a packet that visits more hosts goes in a circle
		here := known
		if o.probes && i == 0 || o.asDaemons {
			err := s.askDaemon(name, &here)
			if errors.Is(err, ErrNoDaemon) {
				here = known // the daemon has exited by itself
			} else if err != nil {
				return "", err
			}
		}
		r, err := s.traceAt(name, flow, here)
		if err != nil {
			return "", err
		}
		switch {
		case r.Trouble():
			return strings.Join(append(stages, name+" ends: "+r.Reason), ", "), nil
		case r.Arrived && len(r.Unsure) > 0 && o.asDaemons:
			return strings.Join(append(stages, name+" arrives"+unsure), ", "), nil
		case r.Arrived:
			return strings.Join(append(stages, name+" arrives"), ", "), nil
		}
		stage := name + " leaves"
		if r.Pending {
			stage += pending
		}
		if r.Probe != nil {
			stage += fmt.Sprintf(" (probes: %s)", r.Probe.Finding)
		}
		stages = append(stages, stage)
		name, err = s.hostAt(r.Next)
		if err != nil {
			return "", err
		}
		if name == "" {
			break
		}
	}
	return strings.Join(stages, ", "), nil
}

// askDaemon learns from a node's daemon its peers, with what its probes say, and what its last look found.
func (s *Session) askDaemon(name string, known *trace.Known) error {
	peers, err := nodeWith[PeerObserver](s, name)
	if err != nil {
		return err
	}
	looks, err := nodeWith[LookObserver](s, name)
	if err != nil {
		return err
	}
	known.Peers, err = peers.Peers()
	if err != nil {
		return err
	}
	known.Carried, err = looks.LastLook()
	return err
}

// hostAt returns the node that has an address, or to which a NAT translates it; empty:
// none, or more than one. The node's record may not show the address yet.
func (s *Session) hostAt(a netip.Addr) (string, error) {
	if !a.IsValid() {
		return "", nil
	}
	var having []string
	for _, name := range s.top.NodeNames() {
		if public, ok := s.published(name, cidr.FamilyOf(a)); ok && public == a {
			return name, nil
		}
		local, err := s.isLocal(name, a)
		if err != nil {
			return "", err
		}
		if local {
			having = append(having, name)
		}
	}
	if len(having) != 1 {
		return "", nil
	}
	return having[0], nil
}

// isLocal reports whether an address is one of a node's host.
func (s *Session) isLocal(name string, a netip.Addr) (bool, error) {
	h, err := nodeWith[TraceHost](s, name)
	if err != nil {
		return false, err
	}
	k, done, err := h.Kernel(context.Background())
	if err != nil {
		return false, err
	}
	defer done()
	way, err := k.Route(trace.Question{Dst: a})
	return err == nil && way.Local, nil
}

func (s *Session) traceAt(name string, flow trace.Flow, known trace.Known) (*trace.Result, error) {
	h, err := nodeWith[TraceHost](s, name)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	k, done, err := h.Kernel(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return trace.Walk(ctx, k, flow, known)
}

// traceKnown returns what the datastore says about the cluster.
func (s *Session) traceKnown() (known trace.Known, err error) {
	b, network, err := s.backend()
	if err != nil {
		return known, err
	}
	routed := b.Extent().Provider.Name != ""
	for _, f := range s.families {
		known.Networks = append(known.Networks, network.Of(f).Network)
	}
	records, err := s.world.Store().Records()
	if err != nil {
		return known, err
	}
	var leases []lease.Lease
	for _, r := range records {
		if l, ok := r.lease(); ok {
			leases = append(leases, l)
		}
	}
	for _, l := range leases {
		p := node.Peer{
			Subnet: l.Key, PublicIP: l.Attrs.PublicIP, PublicIP6: l.Attrs.PublicIPv6, Backend: l.Attrs.BackendType,
			State: node.PeerServed,
		}
		if routed {
			p.Ways = []node.Way{{Subnet: l.Key.V4, Type: "router"}}
		}
		older := func(o lease.Lease) bool { return o.CreateRevision < l.CreateRevision && o.Key.Overlaps(l.Key) }
		if slices.ContainsFunc(leases, older) {
			p.State = node.PeerRefused
		}
		known.Peers = append(known.Peers, p)
	}
	return known, nil
}
