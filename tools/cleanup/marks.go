package cleanup

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/reconcile"
	"github.com/flanneld/flannel/core/subnetfile"
)

// marks say which objects are flannel's.
type marks struct {
	networks []netip.Prefix
	subnets  []lease.Key // that the host had
}

// readMarks collects the marks that the operator gives and those in the files of
// former runs. It returns a sentence for each file that it could not read.
func (o Options) readMarks() (m marks, unread []string) {
	m.networks = slices.Clone(o.Networks)
	for _, path := range o.SubnetFiles {
		text, err := o.read(path)
		if err != nil {
			unread = append(unread, fmt.Sprintf("subnet file: %v", err))
		}
		m.networks = append(m.networks, subnetfile.Networks(text)...)
		m.add(subnetfile.Previous(text))
	}
	for _, path := range o.StateFiles {
		data, err := o.read(path)
		if err == nil && data == nil {
			continue
		}
		var last node.Marks
		if err == nil {
			last, err = node.SavedMarks(data)
		}
		if err != nil {
			unread = append(unread, fmt.Sprintf("state file %s: %v", path, err))
			continue
		}
		m.networks = append(m.networks, last.Networks...)
		m.add(last.Own)
	}
	m.networks = unique(m.networks)
	return m, unread
}

func (m *marks) add(own lease.Key) {
	if own.IsValid() && !slices.Contains(m.subnets, own) {
		m.subnets = append(m.subnets, own)
	}
}

// unique returns the prefixes in order, each once.
func unique(prefixes []netip.Prefix) []netip.Prefix {
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	return slices.Compact(prefixes)
}

// read returns the content of a file, nil if it does not exist.
func (o Options) read(path string) ([]byte, error) {
	data, err := os.ReadFile(o.at(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// upstreamRoute reports whether a route is one that upstream leaves and the daemon
// treats as foreign, because it is on no device of flannel's: host-gw's and
// DirectRouting's route to the subnet of a peer, and the blackhole of the host's subnet
// (interop 6.2, 6.3, 7.4). Both have the protocol boot and no metric.
func (m marks) upstreamRoute(r dataplane.Route) bool {
	if r.Protocol != dataplane.ProtocolBoot || r.Metric != 0 || r.Other != "" || !inside(m.networks, r.Dst) {
		return false
	}
	for _, own := range m.subnets {
		for _, subnet := range []netip.Prefix{own.V4, own.V6} {
			switch {
			case !subnet.IsValid() || subnet.Addr().Is4() != r.Dst.Addr().Is4():
				continue
			case r.Kind == dataplane.Blackhole && r.Dst == subnet:
				return true
			case r.Kind == dataplane.Unicast && r.Via.IsValid() && r.Dst.Bits() == subnet.Bits() && r.Dst != subnet:
				return true
			}
		}
	}
	return false
}

// inside reports whether a prefix lies within one of the networks.
func inside(networks []netip.Prefix, p netip.Prefix) bool {
	return dataplane.Extent{Networks: networks}.InNetworks(p)
}

// plan returns the ops that remove flannel's objects of the kernel, and the objects
// that look like flannel's and stay. Devices are those that have a name of flannel's.
func (m marks) plan(have *dataplane.State, devices []string) (ops []dataplane.Op, kept []Item) {
	own := reconcile.Ownership{Links: map[string]bool{}, Networks: m.networks}
	for _, name := range devices {
		l, exists := have.Links[name]
		if !exists {
			continue
		}
		if reason := notOurs(l); reason != "" {
			kept = append(kept, Item{Kind: "link", Object: l.String(), Why: reason})
			continue
		}
		own.Links[name] = true
	}
	for _, r := range have.Routes.All {
		if own.Route(r) || own.Links[r.Link] {
			continue // the plan below deletes it, or its device takes it along
		}
		if m.upstreamRoute(r) {
			ops = append(ops, dataplane.Op{Verb: dataplane.Delete, Object: r})
		} else if r.Protocol == dataplane.Protocol {
			kept = append(kept, Item{Kind: "route", Object: r.String(),
				Why: "it has flannel's protocol, and lies in no known network of flannel's; name that with --network"})
		}
	}
	all := reconcile.Diff(dataplane.NewState(), have, reconcile.Options{Own: own, Prune: true})
	return append(ops, all.Ops...), kept
}
