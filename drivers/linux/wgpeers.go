package linux

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// wgPeer performs an op on a peer. It never touches the others.
func (a *applier) wgPeer(verb dataplane.Verb, p dataplane.WGPeer) error {
	l, err := a.links.named(p.Link)
	if err != nil {
		return err
	}
	params, ok := l.Params.(dataplane.WireGuard)
	if !ok {
		return fmt.Errorf("link %s is of type %s: %w", l.Name, l.Kind(), driver.ErrInvalid)
	}
	psk, err := a.d.wg.psk(p.PSK)
	if err != nil {
		return err
	}
	if params.Userspace {
		return a.d.wg.applyUserspace(verb, l, p, psk)
	}
	return a.applyKernel(verb, l, p, psk)
}

// applyUserspace performs an op on a peer of a device in this process.
func (w *wireguards) applyUserspace(verb dataplane.Verb, l link, p dataplane.WGPeer, psk dataplane.Secret) error {
	d, alive := w.alive(l)
	if !alive {
		return fmt.Errorf("nothing carries packets on %s: %w", l.Name, unix.ENODEV)
	}
	if err := possible(verb, d.HasPeer(p.Public)); err != nil {
		return err
	}
	if verb == dataplane.Delete {
		d.RemovePeer(p.Public)
		return nil
	}
	return d.SetPeer(p, psk)
}

// applyKernel performs an op on a peer of a device in the kernel, which does not
// report whether a peer existed.
func (a *applier) applyKernel(verb dataplane.Verb, l link, p dataplane.WGPeer, psk dataplane.Secret) error {
	kernel, err := a.d.wg.inKernel()
	if err != nil {
		return err
	}
	known, err := a.peersOf(l)
	if err != nil {
		return err
	}
	former, there := known.peers[p.Public]
	if err := possible(verb, there); err != nil {
		return err
	}
	if verb == dataplane.Delete {
		delete(known.peers, p.Public)
		return kernel.removePeer(l.index, p.Public)
	}
	greets := !there && known.replaces(p)
	known.put(p)
	return kernel.setPeer(l.index, p, psk, losesAllowed(former, p), greets)
}

// losesAllowed reports whether a peer has an allowed IP that it will not have.
func losesAllowed(former, next dataplane.WGPeer) bool {
	for prefix := range former.AllowedIPs {
		if !next.Allows(prefix) {
			return true
		}
	}
	return false
}

// possible returns the error with which a kernel refuses to create an object that is there, or to
// delete one that is not.
func possible(verb dataplane.Verb, there bool) error {
	switch {
	case verb == dataplane.Create && there:
		return unix.EEXIST
	case verb == dataplane.Delete && !there:
		return unix.ENOENT
	}
	return nil
}

// wgTable holds the peers of a device.
type wgTable struct {
	peers map[dataplane.PublicKey]dataplane.WGPeer
	owner map[netip.Prefix]dataplane.PublicKey // of an allowed IP
}

// put adds a peer.
func (t *wgTable) put(p dataplane.WGPeer) {
	t.peers[p.Public] = p
	for prefix := range p.AllowedIPs {
		t.owner[prefix] = p.Public
	}
}

// replaces reports whether a new peer takes an allowed IP of another one that the device still has: the
// host behind it has a new key.
func (t *wgTable) replaces(p dataplane.WGPeer) bool {
	for prefix := range p.AllowedIPs {
		if _, there := t.peers[t.owner[prefix]]; there {
			return true
		}
	}
	return false
}

// peersOf returns a device's peers, which it reads once for all ops.
func (a *applier) peersOf(l link) (*wgTable, error) {
	if known := a.wgPeers[l.index]; known != nil {
		return known, nil
	}
	r, err := a.d.wg.read(l)
	if err != nil {
		return nil, err
	}
	known := &wgTable{
		peers: map[dataplane.PublicKey]dataplane.WGPeer{}, owner: map[netip.Prefix]dataplane.PublicKey{},
	}
	for _, p := range r.Peers {
		known.put(p.WGPeer)
	}
	if a.wgPeers == nil {
		a.wgPeers = map[int]*wgTable{}
	}
	a.wgPeers[l.index] = known
	return known, nil
}
