package labworld

import (
	"net/netip"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/scenarios/lang"
)

// KillIKE implements [lang.IKEHost].
func (n *netnsNode) KillIKE() error { return n.node.KillCharon() }

// HideIKE implements [lang.IKEHost].
func (n *netnsNode) HideIKE(on bool) error {
	if on {
		return n.node.RemoveCharon()
	}
	return n.node.InstallCharon()
}

// UnloadConn implements [lang.IKEHost].
func (n *netnsNode) UnloadConn(k dataplane.ConnKey) error { return n.node.UnloadConn(k) }

// DropKeys implements [lang.IKEHost].
func (n *netnsNode) DropKeys(peer netip.Addr) error { return n.node.DropTunnelKeys(peer) }

// Keys implements [lang.IKEHost].
func (n *netnsNode) Keys() ([]lang.TunnelKey, error) {
	keys, err := n.node.TunnelKeys()
	all := make([]lang.TunnelKey, len(keys))
	for i, k := range keys {
		all[i] = lang.TunnelKey(k)
	}
	return all, err
}

// Negotiating implements [lang.IKEHost].
func (n *netnsNode) Negotiating(peer netip.Addr) (bool, error) { return n.node.Negotiating(peer) }

// Sniff implements [lang.Sniffer].
func (w *World) Sniff(network netip.Prefix) (func() (lang.Sniffed, error), error) {
	stop, err := w.Lab.Sniff(network)
	if err != nil {
		return nil, err
	}
	return func() (lang.Sniffed, error) {
		seen, err := stop()
		return lang.Sniffed(seen), err
	}, nil
}
