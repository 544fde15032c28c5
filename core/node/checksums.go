package node

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/core/uplink"
)

// The pause before the node tries the other value of the setting again, longer each time: each try may cost the TCP
// packets of one interval of probes.
const (
	checksumsFirst = time.Hour
	checksumsMost  = 24 * time.Hour
)

// checksums is the search for a network card that computes wrong checksums in tunnels. Its sign is that peers answer
// ICMP, whose checksum the kernel always computes, and that no peer answers TCP. A packet filter has the same sign, so
// the node makes a trial: it lets the kernel compute all checksums, and probes the same peers again.
//
//	left alone ──no TCP──► trial ──the same peers answer──► off ──after a pause──► on again, as if left alone
//	     ▲                   │
//	     └───none answers: a filter; on again, after a pause another trial
type checksums struct {
	value  string         // of the device's setting; "": left alone
	proven bool           // peers that had been silent answer now
	deaf   []netip.Prefix // their subnets
	since  time.Time      // of the value
	again  time.Time      // no other value before
	tries  int
	uplink uplink.Uplink // of the evidence
}

// followChecksums decides by the answers of peers whether the kernel computes the checksums in tunnels, if the
// config leaves that to the node.
func (n *Node) followChecksums() {
	c := &n.host.checksums
	if b, ok := n.transition.Set().PresentBackend().(backend.ChecksumAdapter); !ok || !b.AdaptsChecksums() {
		*c = checksums{}
		return
	}
	if c.value != "" && c.uplink != n.host.uplink {
		off := c.value == dataplane.FeatureOff
		*c = checksums{value: c.value, uplink: n.host.uplink}
		if off {
			n.setChecksums(dataplane.FeatureOn)
			n.event(Info, "tx-checksum-trial", "the uplink has changed: its network card computes checksums again")
		}
		return
	}
	switch {
	case c.value != dataplane.FeatureOff:
		n.suspectChecksums()
	case !c.proven:
		n.judgeChecksums()
	case !n.now.Before(c.again):
		n.setChecksums(dataplane.FeatureOn)
		n.event(Info, "tx-checksum-trial", "trying whether the network card computes right checksums in tunnels by now")
	}
}

// suspectChecksums begins a trial if peers answer ICMP and none answers TCP. A firewall at one peer is no such
// evidence, as long as another peer answers TCP or may do so: the node waits until it has examined all of them.
func (n *Node) suspectChecksums() {
	c, p := &n.host.checksums, n.probes.prober
	mayAnswer := p.Count(probe.Well) + p.Count(probe.ICMPLost) + p.Count(probe.Unknown)
	if p.Count(probe.TCPLost) == 0 || mayAnswer > 0 || n.now.Before(c.again) || !n.hostLane().clean {
		return
	}
	c.deaf, c.proven = nil, false
	for _, t := range n.targets(n.mtu()) {
		if r, _ := p.Result(t.Subnet); r.Finding == probe.TCPLost {
			c.deaf = append(c.deaf, t.Subnet)
		}
	}
	slices.SortFunc(c.deaf, netip.Prefix.Compare)
	c.uplink = n.host.uplink
	n.setChecksums(dataplane.FeatureOff)
	n.event(Info, "tx-checksum-trial", fmt.Sprintf("peers that answer ICMP and not TCP: %d, peers that answer TCP: none; "+
		"trying whether they do without the checksums of the network card", len(c.deaf)))
}

// judgeChecksums ends a trial: with the first of the peers that answers, or when all have been examined without an
// answer.
func (n *Node) judgeChecksums() {
	c, p := &n.host.checksums, n.probes.prober
	began := c.since.Add(p.Summary().Interval) // an examination that ends later has begun with the present value
	waits, answers := false, false
	for _, subnet := range c.deaf {
		r, known := p.Result(subnet)
		answers = answers || known && r.Finding == probe.Well && r.At.After(c.since)
		waits = waits || known && !r.At.After(began)
	}
	if waits && !answers {
		return
	}
	c.again = n.now.Add(n.backoff(c.tries, checksumsFirst, checksumsMost))
	c.tries++
	if !answers {
		n.setChecksums(dataplane.FeatureOn)
		n.event(Warning, "tx-checksum-trial", "the same peers answer no TCP with the kernel's checksums, either: a packet "+
			"filter drops it, and the network card computes checksums again")
		return
	}
	c.proven = true
	n.event(Warning, "tx-checksum", fmt.Sprintf("%d peers answered ICMP and not TCP, and answer TCP with the kernel's "+
		"checksums: the network card computes wrong ones in tunnels; tx-checksum-ip-generic of the VXLAN device stays off "+
		"(TxChecksum auto)", len(c.deaf)))
}

// setChecksums gives the setting another value.
func (n *Node) setChecksums(value string) {
	c := &n.host.checksums
	c.value, c.since = value, n.now
	n.hostLane().lookBy(n.now, causeChange)
}
