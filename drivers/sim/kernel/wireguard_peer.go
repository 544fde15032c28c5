package kernel

import (
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// wgPeers holds the peers of a device, and finds the one behind an address.
type wgPeers struct {
	device  *wgDevice
	sorted  []*wgPeer // by public key
	allowed map[netip.Prefix]*wgPeer
	lengths [2][129]int // how many allowed IPs have a length, by family
}

// wgPeer is a peer of a device, with its sessions.
type wgPeer struct {
	device    *wgDevice
	public    dataplane.PublicKey
	endpoint  netip.AddrPort
	allowed   []netip.Prefix
	keepalive time.Duration
	psk       dataplane.Secret

	previous *wgSession // the peer may still use this one
	current  *wgSession
	next     *wgSession // waits for the initiator's first packet
	answered [32]byte   // the nonce of the last initiation that was answered
	shook    time.Time  // when the last handshake succeeded; zero: never
	queue    []wgQueued // packets that wait for a handshake

	attempt  wgAttempt
	silence  *world.Event // a new handshake, if the peer stays silent
	reply    *world.Event // a keepalive, if there is nothing else to send
	periodic *world.Event // the next persistent keepalive
}

// wgQueued is a packet that waits.
type wgQueued struct {
	packet []byte
	probe  *Probe
}

func (ps *wgPeers) search(k dataplane.PublicKey) (int, bool) {
	return slices.BinarySearchFunc(ps.sorted, k, func(p *wgPeer, k dataplane.PublicKey) int { return p.public.Compare(k) })
}

func (ps *wgPeers) get(k dataplane.PublicKey) (*wgPeer, bool) {
	i, found := ps.search(k)
	if !found {
		return nil, false
	}
	return ps.sorted[i], true
}

func (ps *wgPeers) each(do func(*wgPeer)) {
	for _, p := range ps.sorted {
		do(p)
	}
}

// put adds or changes a peer. Its allowed IPs leave the peers that have them. A new peer that takes the
// place of another is greeted, as our driver for Linux does.
func (ps *wgPeers) put(o dataplane.WGPeer, psk dataplane.Secret) {
	i, found := ps.search(o.Public)
	if !found {
		ps.sorted = slices.Insert(ps.sorted, i, &wgPeer{device: ps.device, public: o.Public})
	}
	p := ps.sorted[i]
	if o.Endpoint.IsValid() {
		p.endpoint = o.Endpoint
	}
	if p.psk != psk { // existing sessions keep the former one
		p.psk = psk
	}
	for _, prefix := range slices.Clone(p.allowed) {
		ps.disallow(p, prefix)
	}
	replaces := false
	for prefix := range o.AllowedIPs {
		replaces = ps.allow(p, prefix.Masked()) && !found || replaces
	}
	p.keepalive = time.Duration(o.Keepalive) * time.Second
	p.periodic.Cancel()
	p.keepAlive()
	if d := ps.device; !found && d.link != nil && d.link.up && (replaces || d.link.stack.world.Now().Before(d.greets)) {
		p.poke()
	}
}

// allow gives a prefix to a peer. It reports whether another peer had it.
func (ps *wgPeers) allow(p *wgPeer, prefix netip.Prefix) (taken bool) {
	if ps.allowed == nil {
		ps.allowed = map[netip.Prefix]*wgPeer{}
	}
	former := ps.allowed[prefix]
	if former != nil {
		ps.disallow(former, prefix)
	}
	ps.allowed[prefix] = p
	ps.lengths[cidr.FamilyOf(prefix.Addr())][prefix.Bits()]++
	p.allowed = append(p.allowed, prefix)
	slices.SortFunc(p.allowed, netip.Prefix.Compare)
	return former != nil
}

func (ps *wgPeers) disallow(p *wgPeer, prefix netip.Prefix) {
	delete(ps.allowed, prefix)
	ps.lengths[cidr.FamilyOf(prefix.Addr())][prefix.Bits()]--
	p.allowed = slices.DeleteFunc(p.allowed, func(o netip.Prefix) bool { return o == prefix })
}

// behind returns the peer behind an address: that of the longest prefix.
func (ps *wgPeers) behind(a netip.Addr) *wgPeer {
	lengths := &ps.lengths[cidr.FamilyOf(a)]
	for bits := a.BitLen(); bits >= 0; bits-- {
		if lengths[bits] == 0 {
			continue
		}
		prefix, err := a.Prefix(bits)
		if p := ps.allowed[prefix]; err == nil && p != nil {
			return p
		}
	}
	return nil
}

func (ps *wgPeers) remove(k dataplane.PublicKey) {
	i, found := ps.search(k)
	if !found {
		return
	}
	p := ps.sorted[i]
	p.end("the peer is removed")
	for _, prefix := range slices.Clone(p.allowed) {
		ps.disallow(p, prefix)
	}
	ps.sorted = slices.Delete(ps.sorted, i, i+1)
}

// endSessions forgets all sessions of the device.
func (d *wgDevice) endSessions(why string) {
	d.peers.each(func(p *wgPeer) { p.end(why) })
	d.indexes = nil
}

// end forgets the sessions of a peer, its timers, and the packets that wait.
func (p *wgPeer) end(why string) {
	for _, s := range []*wgSession{p.previous, p.current, p.next} {
		if s != nil {
			delete(p.device.indexes, s.ours)
		}
	}
	p.previous = nil
	p.current = nil
	p.next = nil
	p.shook = time.Time{}
	for _, e := range []*world.Event{p.silence, p.reply, p.periodic} {
		e.Cancel()
	}
	p.attempt.end(p)
	p.dropQueue(DropWGNoSession, why)
}

func (p *wgPeer) dropQueue(reason Drop, why string) {
	queue := p.queue
	p.queue = nil
	for _, q := range queue {
		p.device.link.stack.drop(q.probe, reason, why)
	}
}

// row returns the peer as a value of the core.
func (p *wgPeer) row() dataplane.WGPeer {
	row := dataplane.WGPeer{
		WGPeerKey: dataplane.WGPeerKey{Link: p.device.link.name, Public: p.public},
		Endpoint:  p.endpoint, Keepalive: uint16(p.keepalive / time.Second), PSK: p.psk.PSKName(),
	}
	for _, prefix := range p.allowed {
		row.Allow(prefix)
	}
	return row
}

// alive reports whether a handshake with the peer has succeeded recently.
func (p *wgPeer) alive() bool {
	return !p.shook.IsZero() && p.device.link.stack.world.Now().Sub(p.shook) < dataplane.SessionLife
}
