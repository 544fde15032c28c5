package node

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
)

// PacketPath is the state of a packet path of this process.
type PacketPath struct {
	Link string
	dataplane.Running
}

// followPacketPaths records the state of the packet paths that this process runs.
// The driver finds their tier by trying, and it may change while they run.
func (n *Node) followPacketPaths(have *dataplane.State) {
	if have.Running == nil { // the driver runs none
		return
	}
	h := &n.host
	h.paths = nil
	for _, link := range slices.Sorted(maps.Keys(have.Running)) {
		r := have.Running[link]
		h.paths = append(h.paths, PacketPath{link, r})
		n.once(Info, "packet-path", fmt.Sprintf("%s: packets go by the %s tier: %s", link, r.Tier, r.Reason))
	}
}
