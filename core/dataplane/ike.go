package dataplane

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// IKEDaemon is the daemon that negotiates the keys of IPsec tunnels. It runs as a child
// of the process that created it and ends with that process. It starts without keys and
// connections.
type IKEDaemon struct{ Name string }

// Charon is strongSwan's IKE daemon.
const Charon = "charon"

// String returns the canonical form, such as "ike charon".
func (d IKEDaemon) String() string { return "ike " + d.Name }

func (IKEDaemon) kind() *kind { return &ikeKind }

func (d IKEDaemon) mapKey() string { return d.Name }

var ikeKind = mapKind("ike", func(f *fields) Object { return IKEDaemon{f.next()} },
	func(s *State) *map[string]IKEDaemon { return &s.IKE })

// SharedKeyKey identifies a shared key by its owner.
type SharedKeyKey struct{ Owner netip.Addr }

// Compare orders keys by address.
func (k SharedKeyKey) Compare(o SharedKeyKey) int { return k.Owner.Compare(o.Owner) }

// Key returns the key.
func (k SharedKeyKey) Key() SharedKeyKey { return k }

// SharedKey is a pre-shared key by which the IKE daemon knows the host with an
// address. It names the secret ([Passphrase]) and does not hold it.
type SharedKey struct {
	SharedKeyKey
	Secret SecretName
}

// String returns the canonical form, such as "shared-key 192.168.64.4 psk-1f2e3d4c".
func (k SharedKey) String() string { return fmt.Sprintf("shared-key %s %s", k.Owner, k.Secret) }

func (SharedKey) kind() *kind { return &sharedKeyKind }

var sharedKeyKind = tableKind("shared-key", parseSharedKey,
	func(s *State) *Table[SharedKeyKey, SharedKey] { return &s.SharedKeys })

func parseSharedKey(f *fields) Object {
	owner := f.addr(f.next())
	return SharedKey{SharedKeyKey{owner}, SecretName(f.next())}
}

// FormerKey stands for the keys in the kernel that encrypt packets from one host to another, and that the
// running IKE daemon does not know: one that was killed left them. It is never wanted.
type FormerKey struct{ From, To netip.Addr }

// String returns the canonical form, such as "former-key 192.168.64.3 to 192.168.64.4".
func (k FormerKey) String() string { return fmt.Sprintf("former-key %s to %s", k.From, k.To) }

func (FormerKey) kind() *kind { return &formerKeyKind }

func (k FormerKey) mapKey() FormerKey { return k }

// Compare orders keys by their ends.
func (k FormerKey) Compare(o FormerKey) int {
	return cmp.Or(k.From.Compare(o.From), k.To.Compare(o.To))
}

var formerKeyKind = mapKind("former-key", func(f *fields) Object {
	return FormerKey{From: f.addr(f.next()), To: f.addr(f.after("to"))}
}, func(s *State) *map[FormerKey]FormerKey { return &s.FormerKeys })

// ConnKey identifies an IPsec connection by its ends and the subnets behind them.
type ConnKey struct {
	Local     netip.Addr
	LocalNet  netip.Prefix
	RemoteNet netip.Prefix
	Remote    netip.Addr
}

// Compare orders keys by the remote subnet, then by the other fields.
func (k ConnKey) Compare(o ConnKey) int {
	return cmp.Or(comparePrefixes(k.RemoteNet, o.RemoteNet), k.Remote.Compare(o.Remote),
		comparePrefixes(k.LocalNet, o.LocalNet), k.Local.Compare(o.Local))
}

// Key returns the key.
func (k ConnKey) Key() ConnKey { return k }

// Name returns the connection's name in the IKE daemon (interop 6.6).
func (k ConnKey) Name() string {
	return fmt.Sprintf("%s-%s-%s", k.Local, k.Child(), k.Remote)
}

// Child returns the name of the connection's child, the tunnel itself (interop 6.6).
func (k ConnKey) Child() string { return fmt.Sprintf("%s-%s", k.LocalNet, k.RemoteNet) }

// ParseConnName returns the key of a connection with that name. It returns false for
// a name of another form, which belongs to a foreign connection.
func ParseConnName(name string) (ConnKey, bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 4 {
		return ConnKey{}, false
	}
	var k ConnKey
	f := &fields{words: parts}
	k.Local = f.addr(f.next())
	k.LocalNet = f.prefix()
	k.RemoteNet = f.prefix()
	k.Remote = f.addr(f.next())
	return k, f.err == nil && k.Name() == name
}

// Conn is a connection of the IKE daemon to a peer.
type Conn struct {
	ConnKey
	ESP   string // the proposal for ESP
	Encap bool   // ESP always travels in UDP
	// Other is set by a driver that read a connection which the fields above do
	// not describe. It is never wanted.
	Other string
}

// String returns the canonical form, such as "conn
// 192.168.64.3-10.5.1.0/24-10.5.3.0/24-192.168.64.4 esp aes128gcm16-sha256-prfsha256-ecp256 encap".
func (c Conn) String() string {
	return textOf(c.params(), "conn %s", c.Name())
}

// params lists the parameters in the order of the canonical form.
func (c *Conn) params() []param {
	return []param{
		{"esp", c.ESP != "", c.ESP, func(f *fields) { c.ESP = f.next() }},
		{"encap", c.Encap, nil, func(*fields) { c.Encap = true }},
		{"other", c.Other != "", c.Other, func(f *fields) { c.Other = f.next() }},
	}
}

func (Conn) kind() *kind { return &connKind }

var connKind = tableKind("conn", parseConn, func(s *State) *Table[ConnKey, Conn] { return &s.Conns })

func parseConn(f *fields) Object {
	c := Conn{ConnKey: f.connKey()}
	f.params(c.params())
	return c
}

// connKey reads the name of a connection.
func (f *fields) connKey() ConnKey {
	name := f.next()
	k, ok := ParseConnName(name)
	if !ok {
		f.fail("no name of a connection: %q", name)
	}
	return k
}

// Tunnel is an established tunnel of a connection: its keys are in the kernel.
// Create asks the IKE daemon to establish it and does not wait for the peer.
type Tunnel struct{ ConnKey }

// String returns the canonical form, such as
// "tunnel 192.168.64.3-10.5.1.0/24-10.5.3.0/24-192.168.64.4".
func (t Tunnel) String() string { return "tunnel " + t.Name() }

func (Tunnel) kind() *kind { return &tunnelKind }

var tunnelKind = tableKind("tunnel", func(f *fields) Object { return Tunnel{f.connKey()} },
	func(s *State) *Table[ConnKey, Tunnel] { return &s.Tunnels })
