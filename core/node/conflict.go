package node

import "github.com/flanneld/flannel/core/backend"

// conflictProblems describes the conflicts at single peers' subnets. Such a peer
// is not reached from this host, and all others are: it keeps no node from being
// ready.
func (n *Node) conflictProblems() (texts []string) {
	for _, conflict := range n.host.conflicts {
		if p, ok := n.peerOf(conflict.Want.Dst); ok {
			texts = append(texts, backend.Problem{Key: p.Key, Err: conflict}.String())
		}
	}
	return texts
}
