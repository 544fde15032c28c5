package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/status"
)

// node judges whether the daemon says that its node is ready.
func (f *Facts) node() []Finding {
	s := f.Status
	if s == nil || len(s.Reasons) == 0 {
		return nil
	}
	text := "flanneld says that this node is not ready: " + strings.Join(s.Reasons, "; ")
	advice := status.Advise(*s)
	if advice == (status.Advice{}) {
		return []Finding{{Level: Warning, Topic: "node", Remedy: "flannelctl status --watch",
			Text: text + ". It was ready or started a moment ago, and this may end by itself"}}
	}
	if advice == status.Check {
		return []Finding{{Level: Failure, Topic: "node", Remedy: "journalctl -u flanneld -n 50",
			Text: text + ". The other findings and its log say more"}}
	}
	return []Finding{{Level: Failure, Topic: "node", Text: text + ". What to do: " + advice.Text, Remedy: advice.Command}}
}

// refused judges the peers that this node does not serve. A peer of another backend has
// another network config, or another release.
func (f *Facts) refused() []Finding {
	if f.Status == nil {
		return nil
	}
	var mixed, others []node.Peer
	for _, p := range f.Peers {
		if p.State != node.PeerRefused {
			continue
		}
		switch {
		case p.Backend != "" && f.Status.Backend != "" && p.Backend != f.Status.Backend && f.Status.Change == nil:
			mixed = append(mixed, p)
		default:
			others = append(others, p)
		}
	}
	var found []Finding
	if len(mixed) > 0 {
		first := addressOf(mixed[0])
		found = append(found, Finding{Level: Warning, Topic: "backend",
			Remedy: "ssh " + first.String() + " systemctl restart flanneld",
			Text: fmt.Sprintf("this node runs %q and does not serve %s, of the backend %q: that node has another network "+
				"config, or a release that has not followed it. Restart its flanneld, with the same config (in Kubernetes: "+
				"kubectl -n kube-flannel rollout restart daemonset kube-flannel-ds)",
				f.Status.Backend, named(addressesOf(mixed)), mixed[0].Backend)})
	}
	for _, p := range others[:min(len(others), mostNamed)] {
		found = append(found, Finding{Level: Warning, Topic: "peers", Remedy: "flannelctl leases show " + p.Subnet.String(),
			Text: fmt.Sprintf("the peer %s with %s is not served: %s", addressOf(p), p.Subnet, strings.Join(p.Problems, "; "))})
	}
	return found
}

// addressOf returns the public address of a peer.
func addressOf(p node.Peer) netip.Addr {
	if p.PublicIP.IsValid() {
		return p.PublicIP
	}
	return p.PublicIP6
}

// addressesOf returns the public addresses of peers, each once.
func addressesOf(peers []node.Peer) []netip.Addr {
	var all []netip.Addr
	for _, p := range peers {
		if a := addressOf(p); !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}
