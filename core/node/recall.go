package node

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/driver"
)

// recall takes over the devices of a former run that neither the state file nor a
// record names, unless another network of the host takes them over. They exist before this process
// begins, so the first look finds candidates, and the next look judges them. The zero value has not looked.
type recall struct {
	looked     bool
	candidates []string // to be judged
}

// recallDevices handles the result of a look.
func (n *Node) recallDevices() {
	h := &n.host
	r := &h.recall
	for _, name := range r.candidates {
		others := n.isOperators(name) || n.store.view.Beside.HasDevice(name)
		if all.MakesDevice(h.have.Links[name]) && !others {
			h.links[name] = true
			n.event(Info, "device-found", fmt.Sprintf("%s is left of a former run, by its name, its type and its address "+
				"in our network", name))
		}
	}
	r.candidates = nil
	if r.looked {
		return
	}
	r.looked = true
	for _, l := range h.facts.Links {
		named := all.NamesDevice(l.Name) && !n.isOperators(l.Name)
		if !h.links[l.Name] && named && slices.ContainsFunc(l.Addrs, h.isBase) {
			r.candidates = append(r.candidates, l.Name)
		}
	}
	if len(r.candidates) > 0 {
		n.hostLane().outdated(n.now)
	}
}

// isBase reports whether an address may belong to one of flannel's devices: a single
// address in our networks. A device of another network may be another daemon's.
func (h *hostState) isBase(a driver.LinkAddr) bool {
	inside := func(p netip.Prefix) bool { return p.Contains(a.Prefix.Addr()) }
	return a.Prefix.IsSingleIP() && slices.ContainsFunc(h.networks, inside)
}

// watched returns the previous devices, and those that may be.
func (h *hostState) watched() []string {
	return append(slices.Sorted(maps.Keys(h.links)), h.recall.candidates...)
}
