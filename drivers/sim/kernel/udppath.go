package kernel

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/udppath"
)

// path is a packet path of a process: the decisions of core/udppath, between a
// TUN device and a socket.
type path struct {
	paths *paths
	link  *link
	want  dataplane.Proxy
	sock  *socket
	table *udppath.Table
	core  udppath.Path
	ended bool
}

// paths holds the packet paths of one process, by link. They end with it.
type paths struct {
	stack  *stack
	byLink map[string]*path
	// attend makes the process act as soon as it can: now, when it resumes, or
	// never.
	attend func(func())

	secrets driver.Secrets     // nil: none
	psks    []dataplane.Secret // those of the last look
	ran     map[string]bool    // the userspace WireGuard devices that the process has run
}

func newPaths(s *stack) *paths {
	return &paths{stack: s, byLink: map[string]*path{}, attend: func(do func()) { do() }, ran: map[string]bool{}}
}

// endAll ends all paths, when the process ends.
func (ps *paths) endAll() {
	for _, l := range ps.stack.links { // in this order: carriers change
		if l.queue != nil && l.queue.paths == ps {
			l.queue.end()
		}
	}
}

// apply starts, changes or ends a path. To change its socket or its offloads, it
// ends the path and starts another one with the same peers.
func (ps *paths) apply(verb dataplane.Verb, o dataplane.Proxy) error {
	x := ps.byLink[o.Link]
	switch {
	case verb == dataplane.Delete && x == nil:
		return driver.ErrNotFound
	case verb == dataplane.Delete:
		x.end()
		return nil
	case verb == dataplane.Create && x != nil:
		return driver.ErrExists
	}
	local := udppath.Local{Addr: o.Subnet.Addr(), Subnet: o.Subnet, MTU: o.MTU}
	if x == nil {
		table, err := udppath.NewTable(local)
		if err != nil {
			return fmt.Errorf("%w: %w", driver.ErrInvalid, err)
		}
		return ps.start(o, table)
	}
	table, err := x.table.WithLocal(local)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	case o.Local != x.want.Local || o.Offload != x.want.Offload:
		x.end()
		return ps.start(o, table)
	}
	x.want, x.table = o, table
	return nil
}

// start begins a path, wholly or not at all.
func (ps *paths) start(o dataplane.Proxy, table *udppath.Table) error {
	l, err := ps.stack.find(o.Link)
	switch {
	case o.Offload == dataplane.OffloadGSO:
		return fmt.Errorf("this kernel has no segmentation offload: %w", driver.ErrUnsupported)
	case o.Offload != dataplane.OffloadAuto && o.Offload != dataplane.OffloadOff:
		return fmt.Errorf("offload %q: %w", o.Offload, driver.ErrInvalid)
	case err != nil:
		return err
	case l.device.params().Kind() != dataplane.LinkTUN:
		return fmt.Errorf("%s is no tun link: %w", l.name, driver.ErrInvalid)
	case l.queue != nil:
		return fmt.Errorf("%s is open in another process: %w", l.name, driver.ErrBusy)
	}
	if err := ps.stack.canOpenTUN(); err != nil {
		return err
	}
	x := &path{paths: ps, link: l, want: o, table: table}
	x.sock, err = ps.stack.bind(o.Local, x.arrive)
	if err != nil {
		return err
	}
	ps.byLink[o.Link] = x
	l.open(x)
	return nil
}

// renamed follows the path's link from a former name.
func (x *path) renamed(from string) {
	delete(x.paths.byLink, from)
	x.want.Link = x.link.name
	x.paths.byLink[x.want.Link] = x
}

// end stops the path and releases device and socket.
func (x *path) end() {
	x.ended = true
	delete(x.paths.byLink, x.link.name)
	x.paths.stack.unbind(x.sock)
	x.link.shut()
}

// applyPeer changes a peer of a path.
func (ps *paths) applyPeer(verb dataplane.Verb, o dataplane.Peer) error {
	x := ps.byLink[o.Link]
	if x == nil {
		return fmt.Errorf("no packet path runs on %s: %w", o.Link, driver.ErrNotFound)
	}
	_, there := x.table.Peer(o.Subnet)
	switch {
	case verb == dataplane.Delete && !there:
		return driver.ErrNotFound
	case verb == dataplane.Delete:
		x.table = x.table.Without(o.Subnet)
		return nil
	case verb == dataplane.Create && there:
		return driver.ErrExists
	}
	table, err := x.table.With(udppath.Peer{Subnet: o.Subnet, PublicIP: o.To})
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	x.table = table
	return nil
}

// observe adds the path of a link.
func (ps *paths) observe(state *dataplane.State, link string) {
	x := ps.byLink[link]
	if x == nil {
		return
	}
	state.AddProxy(x.want)
	for _, p := range x.table.Peers() {
		state.AddPeer(dataplane.Peer{PeerKey: dataplane.PeerKey{Link: link, Subnet: p.Subnet}, To: p.PublicIP})
	}
	ps.observeRunning(state, link)
}

func (ps *paths) observeRunning(state *dataplane.State, link string) {
	x := ps.byLink[link]
	if x == nil {
		return
	}
	counters := x.core.Counters()
	state.Running[link] = dataplane.Running{
		Tier: "plain", Reason: "a simulated kernel has no offloads",
		Carried: counters[udppath.Passed], Drops: counters.Drops(),
	}
}

// read lets the process handle the packet, after the time to notice it.
func (x *path) read(what string, p *Probe, handle func(*path)) {
	s := x.paths.stack
	s.world.After(readTime, s.name+": "+what, func() {
		x.paths.attend(func() {
			if x.ended {
				s.drop(p, DropNoListener, "the process on "+x.link.name+" has ended")
				return
			}
			handle(x)
		})
	})
}

// arrive handles a datagram from the socket.
func (x *path) arrive(h ipHeader, d udpDatagram, p *Probe) {
	x.read("datagram at port "+fmt.Sprint(d.dst), p, func(x *path) { x.fromPeer(h.src, d.body, p) })
}

func (x *path) fromKernel(packet []byte, p *Probe) {
	x.core.Tick(x.paths.stack.world.Now())
	x.carry(x.core.Send(x.table, bytes.Clone(packet), udppath.Vnet{}), "from "+x.link.name, p)
}

func (x *path) fromPeer(from netip.Addr, body []byte, p *Probe) {
	x.core.Tick(x.paths.stack.world.Now())
	x.carry(x.core.Receive(x.table, from, bytes.Clone(body)), "from "+from.String(), p)
}

// carry acts on the decision about a packet.
func (x *path) carry(v udppath.Verdict, detail string, p *Probe) {
	s := x.paths.stack
	why := Drop(v.Reason.String())
	if v.Action == udppath.Drop {
		s.drop(p, why, detail)
		return
	}
	if v.Reason != udppath.Passed { // the verdict is about an ICMP error
		p.refused(s, why, detail)
		s.noteDrop(why, detail)
	}
	packet := bytes.Clone(v.Packet)
	if v.Action == udppath.Deliver {
		p.pass(s, "decap", x.link.name)
		x.deliver(packet, p)
		return
	}
	p.pass(s, "encap", fmt.Sprintf("%s to %s", x.link.name, v.To))
	x.transmit(v.To, packet, p)
}

// deliver writes a packet to the device.
func (x *path) deliver(packet []byte, p *Probe) {
	if l := x.link; l.up && l.carrier {
		l.receiveIP(packet, p)
		return
	}
	x.paths.stack.drop(p, DropLinkDown, x.link.name)
}

// transmit sends a datagram to a peer. The socket is bound, so its address must
// still be one of the host's.
func (x *path) transmit(to netip.Addr, packet []byte, p *Probe) {
	s, from := x.paths.stack, x.want.Local
	outer := ipHeader{src: from.Addr(), dst: to, proto: protoUDP}
	datagram := udpDatagram{src: from.Port(), dst: from.Port(), body: packet}
	switch r := s.fibs[outer.family()].lookup(to); {
	case !s.isLocal(from.Addr()):
		s.drop(p, DropBadSource, from.Addr().String())
	case !s.isLocal(to) && r != nil && r.link == x.link:
		s.drop(p, DropLoop, fmt.Sprintf("outer %s dev %s", to, x.link.name))
	default:
		s.send(outer, datagram.payload(&outer), p)
	}
}
