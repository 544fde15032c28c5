package linux

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
	"github.com/flanneld/flannel/drivers/linux/wireguard"
)

// absentTime is how long the driver assumes that the kernel has no WireGuard: each
// query makes the kernel look for the module.
const absentTime = 30 * time.Second

// wireguards holds what the driver needs for WireGuard devices beside their
// links: the secrets, the kernel's interface, and the userspace devices, which no
// kernel knows.
//
// The kernel announces no change of a key or a peer, so such drift waits for the
// periodic look.
type wireguards struct {
	ns      namespace.Namespace
	secrets driver.Secrets
	psks    map[dataplane.SecretName]dataplane.Secret // of the last look's extent
	running map[string]*wireguard.Device              // userspace devices, by link
	made    map[string]bool                           // the TUN devices that this process has made
	changed func()                                    // called when one ends

	kernel *kernelWG // nil until it is needed
	absent time.Time // until then the kernel is taken to have none
}

// close ends the userspace devices. Their TUN devices stay.
func (w *wireguards) close() error {
	for _, name := range slices.Sorted(maps.Keys(w.running)) {
		w.stop(name)
	}
	if w.kernel == nil {
		return nil
	}
	return w.kernel.c.Close()
}

// key returns the private key of all devices.
func (w *wireguards) key() (dataplane.Secret, error) { return w.secret(dataplane.WireGuardKey) }

func (w *wireguards) secret(name dataplane.SecretName) (dataplane.Secret, error) {
	if w.secrets == nil {
		return dataplane.Secret{}, errors.New("this program keeps no secrets")
	}
	return w.secrets.Secret(name)
}

// publicKeys returns the public halves of private keys.
func (w *wireguards) publicKeys(names []dataplane.SecretName) map[dataplane.SecretName]driver.Key {
	if len(names) == 0 {
		return nil
	}
	keys := map[dataplane.SecretName]driver.Key{}
	for _, name := range names {
		secret, err := w.secret(name)
		if err != nil {
			keys[name] = driver.Key{Err: err.Error()}
			continue
		}
		keys[name] = driver.Key{Public: secret.PublicKey()}
	}
	return keys
}

// unsupported returns the reasons why the kernel makes no links of these kinds.
func (w *wireguards) unsupported(kinds []dataplane.LinkKind) (map[dataplane.LinkKind]string, error) {
	if !slices.Contains(kinds, dataplane.LinkWireGuard) {
		return nil, nil
	}
	_, err := w.inKernel()
	if errors.Is(err, driver.ErrUnsupported) {
		return map[dataplane.LinkKind]string{dataplane.LinkWireGuard: dataplane.LinkWireGuard.Missing()}, nil
	}
	return nil, err
}

// inKernel returns the kernel's WireGuard, or an error that wraps ErrUnsupported
// if it has none.
func (w *wireguards) inKernel() (*kernelWG, error) {
	if w.kernel != nil {
		return w.kernel, nil
	}
	missing := fmt.Errorf("%s: %w", dataplane.LinkWireGuard.Missing(), driver.ErrUnsupported)
	if time.Now().Before(w.absent) {
		return nil, missing
	}
	kernel, err := openKernelWG(w.ns)
	switch {
	case errors.Is(err, unix.ENOENT):
		w.absent = time.Now().Add(absentTime)
		return nil, missing
	case err != nil:
		return nil, fmt.Errorf("open the kernel's WireGuard: %w", err)
	}
	w.kernel = kernel
	return kernel, nil
}

// alive returns the userspace device of a link, if it carries packets. A link of
// the same name with another index is another one.
func (w *wireguards) alive(l link) (*wireguard.Device, bool) {
	d, ok := w.running[l.Name]
	return d, ok && d.Alive() && d.Index() == l.index
}

// stop ends a link's userspace device, if there is one, dead or alive.
func (w *wireguards) stop(name string) {
	if d, ok := w.running[name]; ok {
		delete(w.running, name)
		d.Close()
	}
}

// read returns what a WireGuard link says about itself, nothing for a userspace
// device that does not run.
func (w *wireguards) read(l link) (wireguard.Reading, error) {
	if isUserspace(l.Link) {
		d, alive := w.alive(l)
		if !alive {
			return wireguard.Reading{}, nil
		}
		return d.Read()
	}
	kernel, err := w.inKernel()
	if err != nil {
		return wireguard.Reading{}, err
	}
	return kernel.read(l.index)
}

func isUserspace(l dataplane.Link) bool {
	p, ok := l.Params.(dataplane.WireGuard)
	return ok && p.Userspace
}

// keepPSKs keeps the pre-shared keys of an extent, for the peers that name them.
func (w *wireguards) keepPSKs(secrets []dataplane.Secret) {
	w.psks = map[dataplane.SecretName]dataplane.Secret{}
	for _, s := range secrets {
		w.psks[s.PSKName()] = s
	}
}

// psk returns the pre-shared key of that name; the zero secret is none.
func (w *wireguards) psk(name dataplane.SecretName) (dataplane.Secret, error) {
	secret, ok := w.psks[name]
	if !ok && name != "" {
		return secret, fmt.Errorf("pre-shared key %s is not one of the config: %w", name, driver.ErrInvalid)
	}
	return secret, nil
}

// readWireGuard adds WireGuard's parameters and peers to the links of the state. It
// asks nothing if there is no such link.
func (o *observer) readWireGuard() error {
	o.d.wg.keepPSKs(o.extent.PSKs)
	o.facts.Keys = o.d.wg.publicKeys(o.extent.Keys)
	var err error
	o.facts.Unsupported, err = o.d.wg.unsupported(o.extent.Kinds)
	if err != nil {
		return err
	}
	return o.eachOwned(func(index int, name string) error {
		l := o.links.byName[name]
		params, ok := l.Params.(dataplane.WireGuard)
		if !ok {
			return nil
		}
		r, err := o.d.wg.read(l)
		if err != nil {
			return err
		}
		if d, alive := o.d.wg.alive(l); alive && params.Userspace {
			o.state.Running[name] = d.Running()
		}
		params.ListenPort, params.PublicKey = r.Port, r.Public
		l.Params = params
		o.state.AddLink(l.Link)
		o.addPeers(name, r.Peers)
		return nil
	})
}

func (o *observer) addPeers(link string, peers []wireguard.Peer) {
	since := time.Now().Add(-dataplane.SessionLife)
	for _, p := range peers {
		p.Link = link
		o.state.AddWGPeer(p.WGPeer)
		if !p.Handshake.IsZero() {
			o.state.Handshakes[p.WGPeerKey] = p.Handshake
		}
		if p.Handshake.After(since) {
			o.state.Alive[p.WGPeerKey] = struct{}{}
		}
	}
}
