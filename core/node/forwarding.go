package node

import (
	"fmt"
	"strings"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// forwarding returns the settings that make the host forward packets of the
// config's families. The node sets them only if its options say so: other
// programs, and the operator, may have reasons of their own.
func (n *Node) forwarding() []dataplane.Sysctl {
	var settings []dataplane.Sysctl
	for _, f := range cidr.Families {
		if n.network.config.Of(f).Enabled() {
			settings = append(settings, dataplane.Forwarding(f))
		}
	}
	return settings
}

// forwardsNothing lists the settings that keep packets between pods from passing,
// with the remedy. With a backend that carries no packets, pods may be connected
// in other ways.
func (n *Node) forwardsNothing() (reasons []string) {
	if n.host.facts.NoForwarding == [2]bool{} {
		return nil
	}
	if spec, _ := all.Find(n.network.backend.Type()); spec.IgnoresPeers {
		return nil
	}
	for _, f := range cidr.Families {
		if !n.network.config.Of(f).Enabled() || !n.host.facts.NoForwarding[f] {
			continue
		}
		setting := dataplane.Forwarding(f)
		remedy := "or start flanneld with --ip-forward"
		if n.opts.IPForward {
			remedy = "which flanneld is about to do"
			if n.host.denied[setting.Path] {
				remedy = "which flanneld may not do"
			}
		}
		reasons = append(reasons, fmt.Sprintf("the host forwards no %s packet, so none passes between pods: "+
			"set %s to 1, %s", f, strings.ReplaceAll(setting.Path, "/", "."), remedy))
	}
	return reasons
}

// tellForwarding logs once that the host forwards no packets, and that it does again.
func (n *Node) tellForwarding() {
	off := n.forwardsNothing()
	if len(off) > 0 {
		n.once(Warning, "forwarding", strings.Join(off, "; "))
		return
	}
	if n.said["forwarding"] != "" {
		delete(n.said, "forwarding")
		n.event(Info, "forwarding", "the host forwards packets")
	}
}
