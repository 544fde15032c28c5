package simworld

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/scenarios/lang"
)

// State implements [lang.Kernel]. It includes the objects of the IKE daemon, and the entries of a
// provider's tables that lie inside the networks.
func (n *simNode) State(extent dataplane.Extent) (*dataplane.State, error) {
	state, err := n.daemon.Observe(extent)
	if err != nil || extent.Provider.Name == "" {
		return state, err
	}
	state = state.Clone()
	for _, r := range n.world.cloud.State(n.Name()).CloudRoutes.All {
		if extent.InNetworks(r.Dst) {
			state.AddCloudRoute(r)
		}
	}
	return state, nil
}

// Add implements [lang.Kernel].
func (n *simNode) Add(o dataplane.Object) error {
	n.tamper(o)
	return n.Host.Add(o)
}

// Remove implements [lang.Kernel].
func (n *simNode) Remove(o dataplane.Object) error {
	n.tamper(o)
	return n.Host.Remove(o)
}

// Replace implements [lang.Kernel].
func (n *simNode) Replace(o dataplane.Object) error {
	n.tamper(o)
	return n.Host.Replace(o)
}

// tamper tells the invariants that another program changes an object.
func (n *simNode) tamper(o dataplane.Object) {
	if _, is := o.(dataplane.Policy); is {
		n.watched.Tampered()
	}
}

// KillIKE implements [lang.IKEHost].
func (n *simNode) KillIKE() error {
	ike := n.daemon.IKE()
	if ike == nil {
		return lang.ErrNoDaemon
	}
	ike.Crash()
	return nil
}

// HideIKE implements [lang.IKEHost].
func (n *simNode) HideIKE(on bool) error {
	n.daemon.BreakIKE(nil)
	if on {
		n.daemon.BreakIKE(errNoCharon)
	}
	return nil
}

// errNoCharon is the error of a host without the program.
var errNoCharon = fmt.Errorf("no charon on PATH: %w", driver.ErrUnsupported)

// UnloadConn implements [lang.IKEHost].
func (n *simNode) UnloadConn(k dataplane.ConnKey) error {
	ike := n.daemon.IKE()
	if ike == nil {
		return lang.ErrNoDaemon
	}
	return ike.Unload(k)
}

// DropKeys implements [lang.IKEHost].
func (n *simNode) DropKeys(peer netip.Addr) error {
	for _, a := range n.Associations() {
		if a.From == peer || a.To == peer {
			n.DeleteAssociation(a.To, a.SPI)
		}
	}
	return nil
}

// Keys implements [lang.IKEHost].
func (n *simNode) Keys() ([]lang.TunnelKey, error) {
	var keys []lang.TunnelKey
	for _, a := range n.Associations() {
		keys = append(keys, lang.TunnelKey{From: a.From, To: a.To, SPI: a.SPI})
	}
	return keys, nil
}

// Negotiating implements [lang.IKEHost].
func (n *simNode) Negotiating(peer netip.Addr) (bool, error) {
	ike := n.daemon.IKE()
	if ike == nil {
		return false, lang.ErrNoDaemon
	}
	return ike.Negotiating(peer), nil
}

// isReadable reports whether a frame holds a packet between two addresses of the network that each host on the wire can
// read.
func isReadable(frame []byte, network netip.Prefix) bool {
	return slices.ContainsFunc(kernel.Read(frame), func(p kernel.Readable) bool {
		return network.Contains(p.Src) && network.Contains(p.Dst)
	})
}

// Sniff implements [lang.Sniffer].
func (w *World) Sniff(network netip.Prefix) (func() (lang.Sniffed, error), error) {
	var seen lang.Sniffed
	done := false
	for _, name := range w.top.NodeNames() {
		w.nodes[name].Wire("eth0").OnSend(func(frame []byte) {
			_, _, esp := kernel.Ends(frame)
			switch {
			case done:
				return
			case esp:
				seen.ESP++
			case isReadable(frame, network):
				seen.Clear++
			}
		})
	}
	return func() (lang.Sniffed, error) {
		done = true
		return seen, nil
	}, nil
}
