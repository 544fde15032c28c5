package lang

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// IKEHost is a node with an IKE daemon of IPsec, on which other programs act.
type IKEHost interface {
	// KillIKE kills the IKE daemon.
	KillIKE() error
	// HideIKE removes the program of the IKE daemon, or brings it back.
	HideIKE(on bool) error
	// UnloadConn removes a connection from the IKE daemon.
	UnloadConn(dataplane.ConnKey) error
	// DropKeys removes the kernel's keys of the tunnels with another host.
	DropKeys(peer netip.Addr) error
	// Keys returns the kernel's keys, oldest first.
	Keys() ([]TunnelKey, error)
	// Negotiating reports whether the IKE daemon is negotiating a tunnel with another host.
	Negotiating(peer netip.Addr) (bool, error)
}

// TunnelKey names the key of one direction of an IPsec tunnel.
type TunnelKey struct {
	From, To netip.Addr
	SPI      uint32
}

// Sniffer watches the wires.
type Sniffer interface {
	// Sniff counts the packets that nodes send over their uplinks until stop is called.
	Sniff(network netip.Prefix) (stop func() (Sniffed, error), err error)
}

// Sniffed counts packets.
type Sniffed struct {
	Clear int // from and to addresses within the network, without encryption: in no tunnel, VXLAN, udp or IPIP
	ESP   int // also in UDP
}

// tunnelled returns an error unless each of the nodes has a key for packets to each
// other one, the other one can decrypt them, and no node has a key of a host without a record.
func (s *Session) tunnelled(names []string) error {
	b, _, err := s.backend()
	if err != nil || !b.Extent().Policies {
		return nil // another backend, or none
	}
	keys := map[string][]TunnelKey{}
	for _, name := range names {
		h, err := nodeWith[IKEHost](s, name)
		if err != nil {
			return err
		}
		keys[name], err = h.Keys()
		if err != nil {
			return err
		}
	}
	for _, from := range names {
		for _, to := range names {
			if from == to {
				continue
			}
			key, ok := s.youngest(keys[from], from, to)
			if !ok {
				return fmt.Errorf("%s: no key for packets to %s", from, to)
			}
			if !slices.Contains(keys[to], key) {
				return fmt.Errorf("%s: %s does not know the key", from, to)
			}
		}
	}
	return s.onlyOfRecords(keys)
}

// onlyOfRecords returns an error that names a node's key, if one of its ends is no host with a record.
func (s *Session) onlyOfRecords(keys map[string][]TunnelKey) error {
	records, err := s.world.Store().Records()
	if err != nil {
		return err
	}
	hosts := map[netip.Addr]bool{}
	for _, r := range s.owned(records) {
		if r.valid {
			hosts[r.lease.Attrs.PublicIP] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		for _, k := range keys[name] {
			if !hosts[k.From] || !hosts[k.To] {
				return fmt.Errorf("%s: has a key from %s to %s, and one of them has no record", name, k.From, k.To)
			}
		}
	}
	return nil
}

// agreeing bounds the wait for a tunnel that two hosts are negotiating.
const agreeing = 5 * time.Second

// letAgree waits until no two of the nodes are negotiating a further tunnel: the end that
// answers uses the tunnel before the end that asked knows its keys. One end may ask without
// an answer for a long time, so the wait has a bound. The late request of a killed daemon may take the place of
// a tunnel meanwhile (INITIAL_CONTACT, RFC 7296 section 2.4): then the ends notice within four minutes (dpd_delay, and
// the time for which a question is repeated).
func (s *Session) letAgree(names []string) {
	b, _, err := s.backend()
	if err == nil && b.Extent().Policies {
		_ = s.until(agreeing, func() error { return s.agreed(names) })
	}
}

// agreed returns an error if one of the nodes is negotiating a tunnel with another.
func (s *Session) agreed(names []string) error {
	for _, name := range names {
		h, err := nodeWith[IKEHost](s, name)
		if err != nil {
			return err
		}
		for _, peer := range names {
			if peer == name {
				continue
			}
			busy, err := h.Negotiating(s.address(s.nodeIndex(peer), cidr.V4))
			if err != nil {
				return err
			}
			if busy {
				return fmt.Errorf("%s: about to agree on a tunnel with %s", name, peer)
			}
		}
	}
	return nil
}

// youngest returns the key with which a node encrypts packets to another.
func (s *Session) youngest(keys []TunnelKey, from, to string) (TunnelKey, bool) {
	a, b := s.address(s.nodeIndex(from), cidr.V4), s.address(s.nodeIndex(to), cidr.V4)
	for _, k := range slices.Backward(keys) {
		if k.From == a && k.To == b {
			return k, true
		}
	}
	return TunnelKey{}, false
}

// faultIKE performs
//
//	fault n1 ike killed           its IKE daemon dies
//	fault n1 ike absent [heal]    its program is missing at the next start
//	fault n1 ike unload=n2        another program removes its connection with n2
//	fault n1 ike keyless=n2       another program removes the kernel's keys for n2
func faultIKE(s *Session, name string, n Node, a *args, _ string) error {
	unload, keyless := "", ""
	a.text("unload", &unload)
	a.text("keyless", &keyless)
	killed, absent := a.flag("killed"), a.flag("absent")
	on := !a.flag("heal")
	h, err := afterArgs[IKEHost](s, n, a)
	if err != nil {
		return err
	}
	switch {
	case killed:
		return h.KillIKE()
	case absent:
		return setting(s, name+" ike absent", on, h.HideIKE)
	case unload != "":
		k, err := s.connOf(name, unload)
		if err != nil {
			return err
		}
		return h.UnloadConn(k)
	case keyless != "":
		_, other, err := s.indexes(name, keyless)
		if err != nil {
			return err
		}
		return h.DropKeys(s.address(other, cidr.V4))
	}
	return fmt.Errorf("fault ike: want killed, absent, unload=NODE or keyless=NODE")
}

// connOf returns the connection by which a node reaches another.
func (s *Session) connOf(name, other string) (dataplane.ConnKey, error) {
	own, peer, err := s.indexes(name, other)
	if err != nil {
		return dataplane.ConnKey{}, err
	}
	k := dataplane.ConnKey{Local: s.address(own, cidr.V4), Remote: s.address(peer, cidr.V4)}
	for _, end := range []struct {
		node string
		net  *netip.Prefix
	}{{name, &k.LocalNet}, {other, &k.RemoteNet}} {
		r, err := s.recordOf(end.node)
		if err != nil {
			return k, err
		}
		l, _ := r.lease()
		*end.net = l.Key.V4
	}
	return k, nil
}

// sniff performs "sniff start" and "sniff stop", which prints whether the nodes sent
// ESP, and how many packets between two addresses of the network without encryption.
func (s *Session) sniff(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	start, stop := a.flag("start"), a.flag("stop")
	if err := a.done(); err != nil {
		return "", err
	}
	switch {
	case start && s.sniffing == nil:
		w, err := able[Sniffer](s, s.World())
		if err != nil {
			return "", err
		}
		_, network, err := s.backend()
		if err != nil {
			return "", err
		}
		s.sniffing, err = w.Sniff(network.V4.Network)
		return "", err
	case stop && s.sniffing != nil:
		seen, err := s.sniffing()
		s.sniffing = nil
		return fmt.Sprintf("esp=%t clear=%d", seen.ESP > 0, seen.Clear), err
	}
	return "", fmt.Errorf("sniff: want start, then stop")
}
