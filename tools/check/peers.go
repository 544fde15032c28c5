package check

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/backend/ipip"
	"github.com/flanneld/flannel/core/backend/ipsec"
	"github.com/flanneld/flannel/core/backend/vxlan"
	"github.com/flanneld/flannel/core/backend/wireguard"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/internal/shellword"
)

// mostNamed is the number of peers that one finding names.
const mostNamed = 5

// plight is a kind of fault with a peer, as the daemon's probes show it.
type plight int

const (
	blockedHere  plight = iota // nothing of the peer arrives by the backend's port, and its host answers
	blockedThere               // the peer does not answer by the backend's port, and its own packets arrive by it
	oneWay                     // nothing reaches the host of the peer, and the peer's packets arrive
	silent                     // nothing arrives from the peer or its host
	tooBig                     // packets of the pods' MTU are lost
	dropped                    // small packets passed, and then none of any size
	noTCP
	noICMP
	plights
)

// plightOf judges one way to a peer; it returns false if there is no fault.
func plightOf(w node.Way) (plight, bool) {
	r := w.Probe
	switch r.Finding {
	case probe.SizeLost:
		if r.Passes == 0 {
			return dropped, true
		}
		return tooBig, true
	case probe.TCPLost:
		return noTCP, true
	case probe.ICMPLost:
		return noICMP, true
	case probe.Unknown, probe.Well:
		return 0, false
	}
	heard := r.Heard.After(r.Since)
	switch {
	case heard && r.UplinkAnswers:
		return blockedThere, true
	case heard:
		return oneWay, true
	case r.UplinkAnswers:
		return blockedHere, true
	}
	return silent, true
}

// troubled holds the ways to peers with one kind of fault.
type troubled struct {
	peers  []netip.Addr // their public addresses
	ways   int
	first  node.Way
	probes ages
}

// peers judges what the daemon's probes have found out. A peer that answers proves that
// packets arrive on both hosts by the backend's port.
func (f *Facts) peers() []Finding {
	switch {
	case f.Status == nil || len(f.Peers) == 0:
		return nil
	case f.Status.Probes.Interval == 0:
		return []Finding{{Level: Warning, Topic: "peers", Remedy: "flanneld --probe-interval=1m",
			Text: "flanneld sends no probes, so whether its peers answer is not known"}}
	case f.Status.Probes.Unable != "":
		return []Finding{{Level: Warning, Topic: "peers", Remedy: "flannelctl status",
			Text: "flanneld cannot send probes, so whether its peers answer is not known: " + f.Status.Probes.Unable}}
	}
	var by [plights]troubled
	probed, explained := 0, 0
	var probes ages
	carriers := map[string]bool{}
	for _, p := range f.Peers {
		for _, w := range p.Ways {
			if w.Probe == nil || w.Probe.Finding == probe.Unknown || f.isStale(w) {
				continue
			}
			probed++
			probes.add(f.age(w))
			if f.explained(p) {
				explained++
				continue
			}
			carriers[f.carrier(w)] = true
			if trouble, is := plightOf(w); is {
				by[trouble].add(p, w)
				by[trouble].probes.add(f.age(w))
			}
		}
	}
	found := append(f.lost(), f.stale()...)
	for trouble, who := range by {
		if who.ways > 0 {
			found = append(found, f.peerFinding(plight(trouble), who, probed))
		}
	}
	if len(found) == 0 && explained == 0 {
		found = []Finding{allAnswer(probed, probes, carriers)}
	}
	return found
}

// lost is the finding about peers whose records the datastore has lost, though their nodes still exist.
func (f *Facts) lost() []Finding {
	var lost []netip.Addr
	for _, p := range f.Peers {
		if p.Lost {
			lost = append(lost, addressOf(p))
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return []Finding{{Level: Warning, Topic: "peers", Remedy: "flannelctl leases list",
		Text: fmt.Sprintf("the datastore does not hold the records of %s any more, which this node serves for a while: look "+
			"at the flags --etcd-prefix and --etcd-endpoints of this flanneld, which have to be those of the other nodes, "+
			"then at whether the datastore has lost its data", named(lost))}}
}

// allAnswer is the finding without a fault.
func allAnswer(probed int, probes ages, carriers map[string]bool) Finding {
	if probed == 0 {
		return Finding{Level: Warning, Topic: "peers", Remedy: "flannelctl ping NODE",
			Text: "no peer has been probed yet, so whether they answer is not known"}
	}
	delete(carriers, "")
	text := "all peers that were probed answer"
	for _, carrier := range slices.Sorted(maps.Keys(carriers)) {
		text += ", and " + carrier + " is reached from each of them"
	}
	return Finding{Level: OK, Topic: "peers", Text: text + probes.String()}
}

// add counts a way of a peer.
func (t *troubled) add(p node.Peer, w node.Way) {
	address := p.PublicIP
	if f := cidr.FamilyOf(w.Subnet.Addr()); f == cidr.V6 && p.PublicIP6.IsValid() || !address.IsValid() {
		address = p.PublicIP6
	}
	if t.ways == 0 {
		t.first = w
	}
	t.ways++
	if !slices.Contains(t.peers, address) {
		t.peers = append(t.peers, address)
	}
}

// named lists peers, the first of them by address.
func named(peers []netip.Addr) string {
	var names []string
	for _, a := range peers[:min(len(peers), mostNamed)] {
		names = append(names, a.String())
	}
	text := strings.Join(names, ", ")
	if more := len(peers) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// peerFinding describes one kind of fault. It is a failure of this host if nothing arrives
// on its own port, or if it has that fault with all its peers.
func (f *Facts) peerFinding(trouble plight, who troubled, probed int) Finding {
	finding := Finding{Level: Warning, Topic: "peers", Remedy: "flannelctl mesh --port 8081"}
	if who.ways == probed && probed > 1 || trouble == blockedHere {
		finding.Level = Failure
	}
	names, first := named(who.peers), who.peers[0].String()
	carrier := f.carrier(who.first)
	finding.Text = first + " " + who.first.Probe.Text()
	if len(who.peers) > 1 {
		finding.Text += "; the same holds for " + named(who.peers[1:])
	}
	switch {
	case trouble == blockedHere && carrier != "":
		finding.Topic, finding.Remedy = "port", "ssh "+first+" flannelctl check"
		finding.Text = fmt.Sprintf("probes by %s to %s have no answer, nothing arrives here by it from there, and the host "+
			"answers a ping, so it is up. %s", carrier, names, f.whereLost(who.peers))
	case trouble == blockedThere && carrier != "":
		finding.Topic, finding.Remedy = "port", "ssh "+first+" flannelctl check"
		finding.Text = fmt.Sprintf("probes by %s to %s have no answer, though the probes from there arrive here and the "+
			"host answers a ping: a firewall there drops them, or one on the way, or the answers take another way there, or "+
			"another host on the segment has its address too",
			carrier, names)
	case trouble == oneWay:
		finding.Text = fmt.Sprintf("packets to %s are lost, and those from there arrive. %s", names, f.whereLost(who.peers))
	case trouble == silent:
		finding.Remedy = "ping " + first
		finding.Text = fmt.Sprintf("no answer from %s, nor to a ping of the host, and nothing arrives from there: it is "+
			"down, or packets are lost on the way. %s", names, f.whereLost(who.peers))
	case trouble == dropped:
		finding.Text += ". " + f.whereLost(who.peers)
	case trouble == tooBig:
		finding.Topic, finding.Remedy = "mtu", f.smallerMTU(who.first, first)
	case trouble == noTCP && who.first.Type == "tunnel":
		// Which of the two it is, flanneld finds out itself for vxlan: it turns the card's checksums off and probes again.
		finding.Topic, finding.Remedy = "checksum", "nft list ruleset; ethtool -k "+shellword.Of(who.first.Link)
	case trouble == noTCP || trouble == noICMP:
		finding.Topic, finding.Remedy = "filter", "flannelctl ping --mtu "+first
	}
	finding.Text += who.probes.String()
	return finding
}

// whereLost says where packets to some hosts may be lost, the likeliest first.
func (f *Facts) whereLost(peers []netip.Addr) string {
	var here []string
	for _, p := range f.Paths {
		if !slices.Contains(peers, p.Peer) {
			continue
		}
		found := p.Result.Unsure
		if p.Result.Reason == "neigh_failed" {
			found = append(slices.Clone(found), p.last().Text)
		}
		for _, what := range found {
			if !slices.Contains(here, what) && len(here) < mostNamed {
				here = append(here, what)
			}
		}
	}
	if len(here) > 0 {
		return "Look first at what was found here: " + strings.Join(here, "; ")
	}
	if len(f.Paths) > 0 {
		return "The rules and routes of this host let them in and out. Look at those of that host, then at firewalls and " +
			"routers on the way"
	}
	return "Look at the rules and routes of this host and of that one, then at firewalls and routers on the way"
}

// smallerMTU returns the command that makes the pods' packets as small as those that pass.
// Without an option for that, the pods' MTU follows the uplink's. Without a size that passes,
// it returns the command that finds one.
func (f *Facts) smallerMTU(w node.Way, peer string) string {
	r, uplink := w.Probe, f.Status.Uplink
	if r.Passes == 0 || uplink.MTU == 0 || f.Status.MTU == 0 {
		return "flannelctl ping --mtu " + peer
	}
	headers := uplink.MTU - f.Status.MTU
	switch f.backend() {
	case vxlan.Type, wireguard.Type:
		return fmt.Sprintf("flannelctl config get | jq -c '.Backend.MTU=%d' | flannelctl config set -", r.Passes+headers)
	}
	return fmt.Sprintf("ip link set %s mtu %d (on every node, and in the settings that it starts with)",
		shellword.Of(uplink.Link), r.Passes+headers)
}

// carrier names the packets that a firewall has to let pass on a way to a peer; empty:
// nothing special.
func (f *Facts) carrier(w node.Way) string {
	if w.Type == "direct" || w.Type == "router" || w.Former != "" || f.Network == nil {
		return ""
	}
	var ports []string
	for _, port := range f.wantedPorts() {
		ports = append(ports, strconv.Itoa(int(port)))
	}
	switch {
	case f.Network.Backend.Type == ipip.Type:
		return "IP protocol 4"
	case len(ports) == 1:
		return "UDP port " + ports[0]
	case len(ports) > 1:
		return "UDP ports " + strings.Join(ports, " and ")
	}
	return ""
}

// carrierMatch selects the packets of the backend, in the words of each program.
type carrierMatch struct{ firewalld, iptables, nft string }

// carrierMatches returns what selects the packets of the backend.
func (f *Facts) carrierMatches() []carrierMatch {
	var all []carrierMatch
	for _, port := range f.wantedPorts() {
		n := strconv.Itoa(int(port))
		all = append(all, carrierMatch{"--add-port=" + n + "/udp", "-p udp --dport " + n, "udp dport " + n})
	}
	switch f.Network.Backend.Type {
	case ipip.Type:
		all = append(all, carrierMatch{"--add-protocol=ipip", "-p 4", "meta l4proto 4"})
	case ipsec.Type:
		all = append(all, carrierMatch{"--add-protocol=esp", "-p esp", "meta l4proto esp"})
	}
	return all
}

// acceptInZone returns the command that lets the backend's packets into a host with firewalld.
func (f *Facts) acceptInZone() string {
	var zone []string
	for _, m := range f.carrierMatches() {
		zone = append(zone, m.firewalld)
	}
	return "firewall-cmd --permanent " + strings.Join(zone, " ") + " && firewall-cmd --reload"
}
