package kernel

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// wgDevice implements [device] for [dataplane.WireGuard]. A userspace device has
// its socket, its peers and its sessions as long as the process that runs it lives;
// the kernel's has its socket and its sessions as long as it is up.
type wgDevice struct {
	plainDevice
	dataplane.WireGuard
	link    *link // nil until the kernel has accepted the device
	secret  dataplane.Secret
	program *paths    // the process that runs a userspace device; nil: none
	greets  time.Time // until when it greets new peers
	offer   wgOffer
	sockets []*socket
	peers   wgPeers
	indexes map[uint32]*wgSession // by the index that this device chose
}

// wgOffer holds the parts of an op on a device that its text does not show.
type wgOffer struct {
	secret  dataplane.Secret
	program *paths
}

func (d *wgDevice) params() dataplane.LinkParams { return d.WireGuard }

func (d *wgDevice) hasMAC() bool { return false }

func (d *wgDevice) asksNeighbours() bool { return false }

// begin gives a userspace device to a process. If it had a predecessor, the process lets
// it greet its peers for some time: it begins a session with each. drivers/linux does the
// same, and explains why.
func (d *wgDevice) begin(program *paths, now time.Time, name string, former bool) {
	d.program = program
	if former || program.ran[name] {
		d.greets = now.Add(greetTime)
	}
	program.ran[name] = true
}

// greetTime is the same as in drivers/linux.
const greetTime = 10 * time.Second

// runs reports whether an implementation is at work.
func (d *wgDevice) runs() bool { return !d.Userspace || d.program != nil }

// applyWireGuard creates or changes a device with the process's private key.
func (d *hostDriver) applyWireGuard(verb dataplane.Verb, o dataplane.Link, want dataplane.WireGuard) error {
	s, ps := d.h.stack, d.paths
	if verb == dataplane.Delete {
		return s.applyLink(verb, o)
	}
	if s.lacks[dataplane.LinkWireGuard] && !want.Userspace {
		return fmt.Errorf("%s: %w", dataplane.LinkWireGuard.Missing(), driver.ErrUnsupported)
	}
	secret, kept := d.keptSecret(o.Name, want)
	if !kept {
		var err error
		secret, err = ps.secret(want.PublicKey)
		if err != nil {
			return err
		}
	}
	offer := wgOffer{secret, ps}
	if verb == dataplane.Create {
		return s.createWireGuard(o, want, offer)
	}
	if l := s.link(o.Name); l != nil {
		if dev, ok := l.device.(*wgDevice); ok {
			dev.offer = offer
			defer func() { dev.offer = wgOffer{} }()
		}
	}
	return s.applyLink(verb, o)
}

// keptSecret returns the private key that a running device has and keeps: another change of it needs no key, and the
// process may have lost this one.
func (d *hostDriver) keptSecret(name string, want dataplane.WireGuard) (dataplane.Secret, bool) {
	l := d.h.stack.link(name)
	if l == nil {
		return dataplane.Secret{}, false
	}
	dev, ok := l.device.(*wgDevice)
	if !ok || dev.WireGuard != want || dev.Userspace && dev.program != d.paths {
		return dataplane.Secret{}, false
	}
	return dev.secret, true
}

// secret returns the process's private key if this is its public half.
func (ps *paths) secret(public dataplane.PublicKey) (dataplane.Secret, error) {
	if ps.secrets == nil {
		return dataplane.Secret{}, fmt.Errorf("this program has no secrets: %w", driver.ErrNotFound)
	}
	secret, err := ps.secrets.Secret(dataplane.WireGuardKey)
	if err != nil {
		return dataplane.Secret{}, err
	}
	if secret.PublicKey() != public {
		return dataplane.Secret{}, fmt.Errorf("the node's key has the public half %s: %w", secret.PublicKey(),
			driver.ErrInvalid)
	}
	return secret, nil
}

// psk returns the pre-shared key of that name.
func (ps *paths) psk(name dataplane.SecretName) (dataplane.Secret, error) {
	if name == "" {
		return dataplane.Secret{}, nil
	}
	for _, secret := range ps.psks {
		if secret.PSKName() == name {
			return secret, nil
		}
	}
	return dataplane.Secret{}, fmt.Errorf("no pre-shared key named %s: %w", name, driver.ErrInvalid)
}

// createWireGuard makes a device. Its socket opens when it comes up.
func (s *stack) createWireGuard(o dataplane.Link, want dataplane.WireGuard, offer wgOffer) error {
	mtu := o.MTU
	if mtu == 0 {
		mtu = 1420
	}
	switch {
	case !validName(o.Name) || mtu < minMTU || mtu > maxMTU:
		return fmt.Errorf("name or MTU: %w", driver.ErrInvalid)
	case !o.MAC.IsZero():
		return fmt.Errorf("a wireguard link has no MAC: %w", driver.ErrUnsupported)
	case s.link(o.Name) != nil:
		return driver.ErrExists
	}
	d := &wgDevice{plainDevice: plainDevice(dataplane.LinkWireGuard), WireGuard: want, secret: offer.secret}
	d.peers.device = d
	if want.Userspace {
		if err := s.canOpenTUN(); err != nil {
			return err
		}
		d.begin(offer.program, s.world.Now(), o.Name, false)
	}
	if err := s.portFree(want.ListenPort, nil); o.Up && err != nil {
		return err
	}
	d.link = s.addLink(o.Name, d, mtu, dataplane.MAC{})
	d.link.setUp(o.Up)
	return nil
}

// check implements [device].
func (d *wgDevice) check(o dataplane.Link) error {
	want := o.Params.(dataplane.WireGuard)
	switch {
	case !o.MAC.IsZero():
		return fmt.Errorf("a wireguard link has no MAC: %w", driver.ErrUnsupported)
	case d.offer == wgOffer{}:
		return fmt.Errorf("no private key: %w", driver.ErrInvalid)
	case d.Userspace && d.program != nil && d.program != d.offer.program:
		return fmt.Errorf("%s is open in another process: %w", d.link.name, driver.ErrBusy)
	case d.Userspace && d.program == nil && d.link.stack.noTUN:
		return d.link.stack.canOpenTUN()
	case d.link.up && want.ListenPort != d.ListenPort:
		return d.link.stack.portFree(want.ListenPort, d.sockets)
	}
	return nil
}

// change implements [device]. A new key ends all sessions, and the device begins others with
// the same peers. The start of an implementation ends all sessions, too. A new port ends none,
// and the peers with a session hear of it at once.
func (d *wgDevice) change(params dataplane.LinkParams) {
	want := params.(dataplane.WireGuard)
	starts := d.Userspace && d.program == nil
	newKey := want.PublicKey != d.PublicKey
	var greets []*wgPeer
	if starts || newKey {
		d.peers.each(func(p *wgPeer) {
			if p.alive() {
				greets = append(greets, p)
			}
		})
		d.endSessions("the key changes")
	}
	d.secret = d.offer.secret
	moves := want.ListenPort != d.ListenPort
	d.WireGuard = want
	if starts {
		d.begin(d.offer.program, d.link.stack.world.Now(), d.link.name, true)
		d.link.setCarrier(true)
	}
	d.peers.remove(d.PublicKey)
	if d.link.up && (starts || moves) {
		d.closeSockets()
		d.openSockets()
	}
	for _, p := range greets {
		p.poke()
	}
	if d.link.up && moves && !starts && !newKey {
		d.peers.each((*wgPeer).tellPort)
	}
}

// mayComeUp implements [device].
func (d *wgDevice) mayComeUp() error {
	if !d.runs() {
		return nil
	}
	return d.link.stack.portFree(d.ListenPort, nil)
}

// portFree returns an error if another socket than those given has a UDP port.
func (s *stack) portFree(port uint16, except []*socket) error {
	for _, f := range cidr.Families {
		for _, k := range s.sockets {
			if k.local.Port() != port || cidr.FamilyOf(k.local.Addr()) != f {
				continue
			}
			if len(except) == 0 || k != except[0] && k != except[len(except)-1] {
				return fmt.Errorf("UDP port %d is taken by another program: %w", port, driver.ErrBusy)
			}
		}
		if l := s.vxlanAt(port, f); l != nil {
			return fmt.Errorf("UDP port %d is taken by %s: %w", port, l.name, driver.ErrBusy)
		}
	}
	return nil
}

// turned implements [device].
func (d *wgDevice) turned(up bool) {
	if !up {
		d.closeSockets()
		d.endSessions(d.link.name + " is down")
		return
	}
	if d.runs() {
		d.openSockets()
		d.peers.each((*wgPeer).keepAlive)
	}
}

// openSockets binds the port in each family that the kernel has.
func (d *wgDevice) openSockets() {
	s := d.link.stack
	for _, at := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if at.Is6() && s.no6 {
			continue
		}
		k, err := s.bind(netip.AddrPortFrom(at, d.ListenPort), d.arrive)
		if err == nil { // the port was free a moment ago
			d.sockets = append(d.sockets, k)
		}
	}
}

func (d *wgDevice) closeSockets() {
	for _, k := range d.sockets {
		d.link.stack.unbind(k)
	}
	d.sockets = nil
}

// endProgram takes a userspace device from its process. The device stays, without
// carrier and without anything that only the process knew.
func (d *wgDevice) endProgram() {
	d.closeSockets()
	d.endSessions("the process on " + d.link.name + " has ended")
	d.peers = wgPeers{device: d}
	d.program = nil
	d.secret = dataplane.Secret{}
	d.WireGuard = dataplane.WireGuard{Userspace: true}
	d.link.setCarrier(false)
}

// applyWGPeer changes a peer of a device.
func (s *stack) applyWGPeer(verb dataplane.Verb, o dataplane.WGPeer, psk dataplane.Secret) error {
	l, err := s.find(o.Link)
	if err != nil {
		return err
	}
	d, ok := l.device.(*wgDevice)
	switch {
	case !ok:
		return fmt.Errorf("not a wireguard link: %w", driver.ErrInvalid)
	case !d.runs():
		return fmt.Errorf("no process runs %s: %w", l.name, driver.ErrNotFound)
	}
	_, there := d.peers.get(o.Public)
	if err := possible(verb, there); err != nil {
		return err
	}
	switch {
	case verb == dataplane.Delete:
		d.peers.remove(o.Public)
	case o.Public != d.PublicKey: // else the kernel ignores it
		d.peers.put(o, psk)
	}
	return nil
}

// endWGDevices ends the userspace devices of a process.
func (ps *paths) endWGDevices() {
	for _, l := range ps.stack.links {
		if d, ok := l.device.(*wgDevice); ok && d.program == ps {
			d.endProgram()
		}
	}
}

// observeWireGuard returns the state with the present peers of all devices: they
// learn endpoints and lose sessions without a change of the host's tables.
func (d *hostDriver) observeWireGuard(state *dataplane.State, extent dataplane.Extent) *dataplane.State {
	var now dataplane.Table[dataplane.WGPeerKey, dataplane.WGPeer]
	alive := map[dataplane.WGPeerKey]struct{}{}
	handshakes := map[dataplane.WGPeerKey]time.Time{}
	for _, name := range extent.Links {
		l := d.h.stack.link(name)
		if l == nil {
			continue
		}
		dev, ok := l.device.(*wgDevice)
		if !ok || dev.Userspace && dev.program != d.paths {
			continue
		}
		dev.peers.each(func(p *wgPeer) {
			row := p.row()
			now.Put(row)
			if p.alive() {
				alive[row.Key()] = struct{}{}
			}
			if !p.shook.IsZero() {
				handshakes[row.Key()] = p.shook
			}
		})
	}
	if now.Equal(state.WGPeers) && maps.Equal(alive, state.Alive) && maps.Equal(handshakes, state.Handshakes) {
		return state
	}
	changed := *state
	changed.WGPeers = now
	changed.Alive = alive
	changed.Handshakes = handshakes
	return &changed
}

// answer adds to the facts what the extent asks of the host.
func (d *hostDriver) answer(facts driver.HostFacts, extent dataplane.Extent) driver.HostFacts {
	for _, name := range extent.Keys {
		if facts.Keys == nil {
			facts.Keys = map[dataplane.SecretName]driver.Key{}
		}
		facts.Keys[name] = d.paths.publicKey(name)
	}
	for _, kind := range extent.Kinds {
		if d.h.stack.lacks[kind] {
			if facts.Unsupported == nil {
				facts.Unsupported = map[dataplane.LinkKind]string{}
			}
			facts.Unsupported[kind] = kind.Missing()
		}
	}
	return facts
}

// publicKey returns the public half of a secret of the process.
func (ps *paths) publicKey(name dataplane.SecretName) driver.Key {
	err := errors.New("this program has no secrets")
	if ps.secrets != nil {
		var secret dataplane.Secret
		secret, err = ps.secrets.Secret(name)
		if err == nil {
			return driver.Key{Public: secret.PublicKey()}
		}
	}
	return driver.Key{Err: err.Error()}
}

// WithoutKind makes the host's kernel one without a kind of link.
func (h *Host) WithoutKind(kind dataplane.LinkKind) {
	if h.stack.lacks == nil {
		h.stack.lacks = map[dataplane.LinkKind]bool{}
	}
	h.stack.lacks[kind] = true
}
