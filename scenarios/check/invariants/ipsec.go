package invariants

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/kernel"
)

// tamperBound is how long a node may take to notice that another program has removed its
// policies: two full looks.
const tamperBound = time.Minute

// Tampered notes that another program has changed the node's IPsec policies.
func (n *Node) Tampered() { n.tamperedAt = n.all.elapsed() }

// watchWire checks every frame that the node sends over its uplink.
func (n *Node) watchWire(uplink string) {
	n.Wire(uplink).OnSend(func(frame []byte) {
		if n.all.sealed {
			n.checkFrame(frame)
		}
		if n.all.judgesClaims {
			n.checkSecrecy(frame)
		}
	})
}

// checkFrame checks that no packet between pods leaves without encryption. A pod may
// exist as soon as the node has a subnet file, whether or not the daemon runs.
func (n *Node) checkFrame(frame []byte) {
	src, dst, _ := kernel.Ends(frame)
	if !src.IsValid() || !n.all.inNetworks(netip.PrefixFrom(src, src.BitLen())) {
		return
	}
	network, ok := n.fileNetwork()
	tampered := n.tamperedAt > 0 && n.all.elapsed()-n.tamperedAt < tamperBound
	if ok && !tampered && network.Contains(src) && network.Contains(dst) {
		n.all.broken("sealed", "%s sends a packet from %s to %s in the clear", n.name, src, dst)
	}
}

// blocks reports whether the look that the node knows of has shown the policy that
// blocks packets that no tunnel carries.
func (n *Node) blocks() bool {
	if n.claims.looked == nil {
		return false
	}
	for _, p := range n.claims.looked.Policies.All {
		if p.Action == dataplane.Block && p.Dir == dataplane.PolicyOut {
			return true
		}
	}
	return false
}

// isOutdated reports whether an object is a policy or a connection with a former address
// or subnet of the node or of the record's peer. Another one has taken its place.
func (n *Node) isOutdated(o dataplane.Object, l *lease.Lease) bool {
	switch o := o.(type) {
	case dataplane.Policy:
		return o.Src != n.key.V4
	case dataplane.Conn:
		own := slices.Contains(n.addresses(), o.Local) && o.LocalNet == n.key.V4
		return !own || o.Remote != l.Attrs.PublicIP
	}
	return false
}

// fileNetwork returns the IPv4 network in the node's subnet file.
func (n *Node) fileNetwork() (netip.Prefix, bool) {
	text, _ := n.Daemon.File(node.SubnetFile)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "FLANNEL_NETWORK="); ok {
			network, err := netip.ParsePrefix(value)
			return network, err == nil
		}
	}
	return netip.Prefix{}, false
}
