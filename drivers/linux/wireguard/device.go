package wireguard

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/device"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/tunnel"
)

// Device is a running WireGuard device. Calls to it are made one at a time.
type Device struct {
	library *device.Device
	queue   *queue
	bind    *bind
	counts  *counts
	index   int                                      // of the TUN device
	limit   int                                      // bytes of the largest packet
	greets  time.Time                                // until when it greets new peers
	owner   map[netip.Prefix]dataplane.PublicKey     // the peer that was given an allowed IP last
	allowed map[dataplane.PublicKey]dataplane.WGPeer // what each peer was given last
}

// greetTime is how long after its start a device greets the peers that it is given.
const greetTime = 10 * time.Second

// Open starts a device on a TUN device that exists. It has no key, port or peers
// yet. Changed is called when the device ends by itself.
func Open(name string, mtu int, changed func()) (*Device, error) {
	fd, index, err := tunnel.OpenQueue(name, true)
	if err != nil {
		return nil, err
	}
	uso, err := setOffload(fd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("offloads of TUN device %s: %w", name, err), unix.Close(fd))
	}
	limit := limitOf(mtu)
	counts := &counts{}
	q, err := newQueue(fd, name, mtu, limit, uso, counts)
	if err != nil {
		return nil, err
	}
	b := newBind(limit, counts)
	library, _ := start(q, b)
	d := &Device{library: library, queue: q, bind: b, counts: counts, index: index, limit: limit,
		owner: map[netip.Prefix]dataplane.PublicKey{}, allowed: map[dataplane.PublicKey]dataplane.WGPeer{}}
	go func() {
		<-d.Ended()
		changed()
	}()
	return d, nil
}

// start starts the library's device with small buffers, and reports whether it
// could have them. The goroutine that reads the queue asks it for the size of a
// batch before it takes its first buffer, and waits there for the buffers.
func start(q *queue, b *bind) (d *device.Device, small bool) {
	ended := make(chan struct{})
	d = device.NewDevice(q, b, oneWorker(q.counts.logger(), ended))
	go func() {
		<-d.Wait()
		close(ended)
	}()
	small = shrinkBuffers(d, b.limit)
	close(q.started)
	return d, small
}

// setOffload makes the kernel leave to the queue the work of network cards. It
// reports whether that includes the segmentation of UDP (Linux 6.2).
func setOffload(fd int) (uso bool, err error) {
	const tcp = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	if unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tcp|unix.TUN_F_USO4|unix.TUN_F_USO6) == nil {
		return true, nil
	}
	return false, unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tcp)
}

// Close ends the device. The TUN device stays.
func (d *Device) Close() { d.library.Close() }

// Index returns the TUN device's index. Another device of its name has another
// index.
func (d *Device) Index() int { return d.index }

// Ended returns a channel that is closed when the device has ended.
func (d *Device) Ended() <-chan struct{} { return d.library.Wait() }

// Alive reports whether packets are carried. A device ends when its TUN device
// goes away; it must still be closed.
func (d *Device) Alive() bool {
	select {
	case <-d.Ended():
		return false
	default:
		return true
	}
}

// Fits reports whether the device can have that MTU. Otherwise another one must
// be opened.
func (d *Device) Fits(mtu int) bool { return limitOf(mtu) <= d.limit }

// SetMTU says that the TUN device has another MTU, which fits.
func (d *Device) SetMTU(mtu int) { d.queue.setMTU(mtu) }

// Configure sets key and port. Another key ends all sessions, and the device begins another one
// with each peer that had one: a peer may have asked for it before the device had the key, and
// would ask again five seconds later. Another port replaces the sockets, in the network
// namespace of the calling thread. With another port alone the device sends a keepalive in
// each session, from which the peer learns the port.
func (d *Device) Configure(key dataplane.Secret, port uint16) error {
	now, err := d.Read()
	if err != nil {
		return err
	}
	var b strings.Builder
	if now.Public != key.PublicKey() {
		line(&b, "private_key", hex.EncodeToString(key.Bytes()))
	}
	if now.Port != port {
		line(&b, "listen_port", strconv.Itoa(int(port)))
	}
	if err := d.set(b.String()); err != nil {
		return err
	}
	if err := d.library.Up(); err != nil {
		return ofPort(port, err)
	}
	switch {
	case now.Public != key.PublicKey():
		d.greet(now.Peers)
	case now.Port != port:
		d.library.SendKeepalivesToPeersWithCurrentKeypair()
	}
	return nil
}

// greet begins a session with each peer that had one when the peers were read.
func (d *Device) greet(peers []Peer) {
	since := time.Now().Add(-dataplane.SessionLife)
	for _, p := range peers {
		peer := d.library.LookupPeer(device.NoisePublicKey(p.Public))
		if peer != nil && p.Handshake.After(since) {
			peer.SendKeepalive()
		}
	}
}

// ofPort explains why sockets cannot be opened.
func ofPort(port uint16, err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("listen on UDP port %d: %w: another process has the port; "+
			"stop it, or choose another ListenPort", port, unix.EADDRINUSE)
	}
	return fmt.Errorf("listen on UDP port %d: %w", port, err)
}

// Greet makes the device begin a session with each new peer that it is given soon after. It is for
// a device that takes the place of one that had the same peers: these would send by the
// former sessions until 15 seconds have passed without an answer. A device without a
// predecessor greets no peer: they may not know it yet, and a handshake that
// goes unanswered delays the next one by five seconds.
func (d *Device) Greet() { d.greets = time.Now().Add(greetTime) }

// SetPeer adds a peer, or changes it and keeps its session. The device begins a session with a new peer
// that takes the place of another: the host behind it has a new key, and asks in vain until it is known here.
// An allowed IP that stays is never away: a packet that needs it in that moment would be lost.
func (d *Device) SetPeer(p dataplane.WGPeer, psk dataplane.Secret) error {
	var b strings.Builder
	line(&b, "public_key", hex.EncodeToString(p.Public[:]))
	line(&b, "preshared_key", hex.EncodeToString(psk.Bytes()))
	if p.Endpoint.IsValid() {
		line(&b, "endpoint", p.Endpoint.String())
	}
	line(&b, "persistent_keepalive_interval", strconv.Itoa(int(p.Keepalive)))
	for prefix := range p.AllowedIPs {
		line(&b, "allowed_ip", prefix.String())
	}
	for former := range d.allowed[p.Public].AllowedIPs {
		if !p.Allows(former) {
			line(&b, "allowed_ip", "-"+former.String())
		}
	}
	greets := !d.HasPeer(p.Public) && (time.Now().Before(d.greets) || d.replaces(p))
	if err := d.set(b.String()); err != nil {
		return err
	}
	d.allowed[p.Public] = p
	for prefix := range p.AllowedIPs {
		d.owner[prefix] = p.Public
	}
	if peer := d.library.LookupPeer(device.NoisePublicKey(p.Public)); greets && peer != nil && p.Endpoint.IsValid() {
		peer.SendKeepalive() // without a session it begins one
	}
	return nil
}

// replaces reports whether a peer takes an allowed IP of another one that the device still has.
func (d *Device) replaces(p dataplane.WGPeer) bool {
	for prefix := range p.AllowedIPs {
		owner, known := d.owner[prefix]
		if known && owner != p.Public && d.HasPeer(owner) {
			return true
		}
	}
	return false
}

// HasPeer reports whether the device has the peer.
func (d *Device) HasPeer(key dataplane.PublicKey) bool {
	return d.library.LookupPeer(device.NoisePublicKey(key)) != nil
}

// RemovePeer removes a peer, if it is there.
func (d *Device) RemovePeer(key dataplane.PublicKey) {
	d.library.RemovePeer(device.NoisePublicKey(key))
	delete(d.allowed, key)
}

// set sends the library its own form of a configuration. The library's errors may
// quote it, so they are not passed on.
func (d *Device) set(config string) error {
	err := d.library.IpcSet(config)
	var ipc *device.IPCError
	if err == nil || !errors.As(err, &ipc) {
		return err
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.Errno(ipcErrno(ipc.ErrorCode()))
}

// ipcErrno returns the errno of the library's code, which is its negative.
func ipcErrno(code int64) uintptr {
	if code >= 0 {
		return uintptr(unix.EINVAL)
	}
	return uintptr(-code)
}

func line(b *strings.Builder, key, value string) {
	b.WriteString(key)
	b.WriteByte('=')
	b.WriteString(value)
	b.WriteByte('\n')
}

// Reading holds the answer of a device about itself.
type Reading struct {
	Public dataplane.PublicKey
	Port   uint16
	Peers  []Peer
}

// Peer is a peer, without the device's name.
type Peer struct {
	dataplane.WGPeer
	Handshake time.Time // of the last one, zero if there was none
}

// Read returns the device's configuration, with its peers in any order.
func (d *Device) Read() (Reading, error) {
	text, err := d.library.IpcGet()
	if err != nil {
		return Reading{}, err
	}
	var r Reading
	for text != "" {
		one, rest, _ := strings.Cut(text, "\n")
		text = rest
		key, value, _ := strings.Cut(one, "=")
		if err := r.take(key, value); err != nil {
			return Reading{}, fmt.Errorf("the library's %s: %w", key, err)
		}
	}
	return r, nil
}

// take adds one line of the library's answer.
func (r *Reading) take(key, value string) error {
	switch key {
	case "private_key":
		secret, err := secretOf(value)
		r.Public = secret.PublicKey()
		return err
	case "listen_port":
		port, err := strconv.ParseUint(value, 10, 16)
		r.Port = uint16(port)
		return err
	case "public_key":
		var p Peer
		_, err := hex.Decode(p.Public[:], []byte(value))
		r.Peers = append(r.Peers, p)
		return err
	}
	if len(r.Peers) == 0 {
		return nil
	}
	return r.Peers[len(r.Peers)-1].take(key, value)
}

// take adds one line about the peer.
func (p *Peer) take(key, value string) (err error) {
	switch key {
	case "preshared_key":
		secret, err := secretOf(value)
		p.PSK = secret.PSKName()
		return err
	case "endpoint":
		p.Endpoint, err = netip.ParseAddrPort(value)
	case "persistent_keepalive_interval":
		seconds, err := strconv.ParseUint(value, 10, 16)
		p.Keepalive = uint16(seconds)
		return err
	case "last_handshake_time_sec":
		seconds, err := strconv.ParseInt(value, 10, 64)
		if seconds != 0 {
			p.Handshake = time.Unix(seconds, 0)
		}
		return err
	case "last_handshake_time_nsec": // follows the seconds
		nanoseconds, err := strconv.ParseInt(value, 10, 64)
		if !p.Handshake.IsZero() {
			p.Handshake = p.Handshake.Add(time.Duration(nanoseconds))
		}
		return err
	case "allowed_ip":
		prefix, err := netip.ParsePrefix(value)
		p.Allow(prefix)
		return err
	}
	return err
}

func secretOf(text string) (dataplane.Secret, error) {
	data, err := hex.DecodeString(text)
	if err != nil {
		return dataplane.Secret{}, err
	}
	return dataplane.SecretOf(data)
}
