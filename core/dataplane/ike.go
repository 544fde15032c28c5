package dataplane

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// IKEDaemon is the daemon that agrees on the keys of IPsec tunnels. It runs as a child of
// the process that created it and ends with that. It begins without keys and
// connections.
type IKEDaemon struct{ Name string }

// Charon is strongSwan's IKE daemon.
const Charon = "charon"

// String returns the canonical form, such as "ike charon".
func (d IKEDaemon) String() string { return "ike " + d.Name }

func (d IKEDaemon) putIn(s *State) { s.IKE[d.Name] = d }

func (d IKEDaemon) namesake(s *State) (Object, bool) { return findIn(s.IKE, d.Name) }

var ikeKind = kind{
	word:  "ike",
	parse: func(f *fields) Object { return IKEDaemon{f.next()} },
	each:  func(s *State, do func(Object)) { eachOf(s.IKE, do) },
}

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

func (k SharedKey) putIn(s *State) { s.SharedKeys.Put(k) }

func (k SharedKey) namesake(s *State) (Object, bool) { return findRow(&s.SharedKeys, k.Key()) }

var sharedKeyKind = kind{
	word: "shared-key",
	parse: func(f *fields) Object {
		owner := f.addr(f.next())
		return SharedKey{SharedKeyKey{owner}, SecretName(f.next())}
	},
	each: func(s *State, do func(Object)) { eachRow(&s.SharedKeys, do) },
}

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
// a name of another form, which is a foreign connection's.
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
	var l line
	l.add(true, "conn %s", c.Name())
	l.add(c.ESP != "", "esp %s", c.ESP)
	l.add(c.Encap, "encap")
	l.add(c.Other != "", "other %s", c.Other)
	return l.String()
}

func (c Conn) putIn(s *State) { s.Conns.Put(c) }

func (c Conn) namesake(s *State) (Object, bool) { return findRow(&s.Conns, c.Key()) }

var connKind = kind{
	word:  "conn",
	parse: parseConn,
	each:  func(s *State, do func(Object)) { eachRow(&s.Conns, do) },
}

func parseConn(f *fields) Object {
	c := Conn{ConnKey: f.connKey()}
	for len(f.words) > 0 && f.err == nil {
		switch word := f.next(); word {
		case "esp":
			c.ESP = f.next()
		case "encap":
			c.Encap = true
		case "other":
			c.Other = f.next()
		default:
			f.fail("unexpected %q", word)
		}
	}
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

func (t Tunnel) putIn(s *State) { s.Tunnels.Put(t) }

func (t Tunnel) namesake(s *State) (Object, bool) { return findRow(&s.Tunnels, t.Key()) }

var tunnelKind = kind{
	word:  "tunnel",
	parse: func(f *fields) Object { return Tunnel{f.connKey()} },
	each:  func(s *State, do func(Object)) { eachRow(&s.Tunnels, do) },
}
