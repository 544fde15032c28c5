package node

import (
	"fmt"

	"github.com/flanneld/flannel/core/probe"
)

// followChecksums lets the kernel compute the checksums in tunnels, if the config leaves
// that to the node and the evidence is that the network card gets them wrong: peers
// answer ICMP, whose checksum the kernel always computes, and no peer answers TCP.
// A firewall at one peer is no such evidence, as long as another peer answers TCP or may
// do so: the node waits until it has examined all of them.
// The node does not go back: the device would lose packets again.
func (n *Node) followChecksums() {
	h, p := &n.host, n.probes.prober
	deaf := p.Count(probe.TCPLost)
	mayAnswer := p.Count(probe.Well) + p.Count(probe.ICMPLost) + p.Count(probe.Unknown)
	if h.wrongChecksums || deaf == 0 || mayAnswer > 0 || !n.network.backend.AdaptsChecksums() {
		return
	}
	h.wrongChecksums = true
	n.hostLane().lookBy(n.now, causeChange)
	n.event(Warning, "tx-checksum", fmt.Sprintf("peers that answer ICMP and not TCP: %d, peers that answer TCP: none; "+
		"turning off tx-checksum-ip-generic of the VXLAN device, since the network card may compute wrong checksums in "+
		"tunnels (TxChecksum auto). If TCP does not pass then, a packet filter drops it: set TxChecksum to on", deaf))
}
