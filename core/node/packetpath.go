package node

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
)

// PacketPath tells how a packet path of this process is doing.
type PacketPath struct {
	Link string
	dataplane.Running
}

// followPacketPaths notes how the packet paths are doing that this process runs
// itself. Which tier they use was found by trying, and may change while they run.
func (n *Node) followPacketPaths(have *dataplane.State) {
	if have.Running == nil { // the driver has none to tell of
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
