package wireguard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// data is the backend's part of a lease. Its JSON has these members in this
// order and no blanks (interop 3.3).
type data struct {
	PublicKey string
	Port      uint16
}

// peerData holds the data of a peer's record.
type peerData struct {
	key  dataplane.PublicKey
	port uint16 // 0: that of the reader (interop 3.3: records of old releases)
}

func parseData(raw json.RawMessage) (peerData, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return peerData{}, fmt.Errorf("record has no PublicKey")
	}
	var d struct {
		PublicKey string
		Port      int64
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return peerData{}, fmt.Errorf("wireguard data %.100q: %w", raw, err)
	}
	key, err := dataplane.ParsePublicKey(d.PublicKey)
	switch {
	case err != nil:
		return peerData{}, fmt.Errorf("PublicKey: %w", err)
	case d.Port < 0 || d.Port > 65535:
		return peerData{}, fmt.Errorf("record has the port %d", d.Port)
	}
	return peerData{key, uint16(d.Port)}, nil
}

// modeIn returns the Mode that a record shows: the port of both halves is that of one device.
func modeIn(a *lease.Attrs) json.RawMessage {
	v4, errV4 := parseData(a.BackendData)
	v6, errV6 := parseData(a.BackendV6Data)
	if errV4 != nil || errV6 != nil || v4.port == 0 || v4.port != v6.port {
		return nil
	}
	return json.RawMessage(fmt.Sprintf(`{"Mode":%q}`, modeAuto))
}

// PeerKey implements [backend.KeyExchanger].
func (b *Backend) PeerKey(a *lease.Attrs, f cidr.Family) (dataplane.WGPeerKey, bool) {
	i := slices.IndexFunc(b.tunnels, func(t tunnel) bool { return slices.Contains(t.carries, f) })
	if i < 0 {
		return dataplane.WGPeerKey{}, false
	}
	d, err := parseData(a.Data(f))
	if err != nil && f == cidr.V6 { // one device has one key, which upstream publishes in the IPv4 half alone
		d, err = parseData(a.BackendData)
	}
	return dataplane.WGPeerKey{Link: b.tunnels[i].device, Public: d.key}, err == nil
}

// candidate is a record as a peer of one device.
type candidate struct {
	record *lease.Lease
	halves [2]backend.Peer // by family; without a lease: the record has no such half
}

// maxSubnets is how many subnets one key may have at a device. A host has one, and those of records that it has left.
const maxSubnets = 64

// renderPeers adds the peers of all devices, and returns the problems of records. One peer serves all records with
// its key: packets to all their subnets go to the one host that has the key. So a record with a copied key takes
// nothing from the subnet of another record. The oldest record names the endpoint, and the node tries those of the
// others if no host with the key answers there.
func (b *Backend) renderPeers(
	s *dataplane.State, env backend.Env, self backend.Self, peers []*lease.Lease,
) []backend.Problem {
	var problems []backend.Problem
	for _, t := range b.tunnels {
		own := b.ownKey(env, self, t)
		found, refused := t.candidates(env, self, peers)
		problems = append(problems, refused...)
		served := map[dataplane.PublicKey]*shared{}
		for _, c := range found {
			peer, err := b.peer(t, env, c)
			if err == nil && peer.Public == own {
				err = fmt.Errorf("PublicKey %s is our own", own)
			}
			if err != nil {
				problems = append(problems, backend.Problem{Key: c.record.Key, Err: err})
				continue
			}
			if served[peer.Public] == nil {
				served[peer.Public] = &shared{oldest: c.record}
			}
			if p := served[peer.Public].join(s, peer, c.record); p.Err != nil {
				problems = append(problems, p)
			}
		}
	}
	return problems
}

// shared is a key with the records that have it.
type shared struct {
	oldest *lease.Lease
	count  int
}

// join makes a peer stand for one more record with its key. The result is a problem if it has an error. A record that
// the datastore has lost yields to another one with its key: its host is back.
func (k *shared) join(s *dataplane.State, peer dataplane.WGPeer, l *lease.Lease) (p backend.Problem) {
	record, since := l.Key, l.CreateRevision
	all, known := s.WGPeers.Get(peer.WGPeerKey)
	switch {
	case !known:
		all = peer
	case k.oldest.CreateRevision != lease.Youngest && since == lease.Youngest:
		return backend.Problem{Key: record, Err: fmt.Errorf(
			"the datastore has lost this record, and its host is back with %s", k.oldest.Key)}
	case k.count == maxSubnets:
		return backend.Problem{Key: record, Err: fmt.Errorf(
			"%d older records, such as %s, have the same PublicKey %s", maxSubnets, k.oldest.Key, peer.Public)}
	case all.Endpoint != peer.Endpoint:
		all.Others = all.Others.With(peer.Endpoint)
		p = backend.Problem{Key: record, Served: true, Err: fmt.Errorf(
			"the older record %s has the same PublicKey %s: packets go to its endpoint %s", k.oldest.Key, peer.Public,
			all.Endpoint)}
	}
	k.count++
	for subnet := range peer.AllowedIPs {
		all.Allow(subnet)
	}
	s.AddWGPeer(all)
	return p
}

// candidates returns the records that a device can serve, the oldest first. Lost records come last: nothing says
// that they are still their host's.
func (t tunnel) candidates(
	env backend.Env, self backend.Self, peers []*lease.Lease,
) ([]candidate, []backend.Problem) {
	var found []candidate
	var problems []backend.Problem
	at := map[lease.Key]int{}
	for _, f := range t.carries {
		served, refused := backend.Peers(env, self, Type, f, peers)
		problems = append(problems, refused...)
		for _, p := range served {
			i, known := at[p.Key]
			if !known {
				i = len(found)
				at[p.Key] = i
				found = append(found, candidate{record: p.Lease})
			}
			found[i].halves[f] = p
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.record.CreateRevision, b.record.CreateRevision), a.record.Key.Compare(b.record.Key))
	})
	return found, problems
}

// peer returns the peer that stands for a record.
func (b *Backend) peer(t tunnel, env backend.Env, c candidate) (dataplane.WGPeer, error) {
	outer := b.outer(env, c)
	d, err := c.data()
	if err != nil {
		return dataplane.WGPeer{}, err
	}
	port := d.port
	if port == 0 {
		port = t.port
	}
	peer := dataplane.WGPeer{
		WGPeerKey: dataplane.WGPeerKey{Link: t.device, Public: d.key},
		Endpoint:  netip.AddrPortFrom(c.halves[outer].IP, port),
		Keepalive: b.opts.PersistentKeepaliveInterval,
		PSK:       b.opts.PSK.PSKName(),
	}
	if !peer.Endpoint.IsValid() {
		return dataplane.WGPeer{}, fmt.Errorf("record has no usable %s half, and Mode is %s", outer, b.opts.Mode)
	}
	for _, f := range t.carries {
		peer.Allowed[f] = c.halves[f].Subnet
	}
	return peer, nil
}

// data returns the data of the record's first half. A device that carries both
// families has one port, which upstream publishes in the IPv4 half alone
// (interop P10).
func (c candidate) data() (peerData, error) {
	f := cidr.V4
	if c.halves[f].Lease == nil {
		f = cidr.V6
	}
	return parseData(c.halves[f].Lease.Attrs.Data(f))
}

// outer returns the family of the peer's endpoint (interop 6.5).
func (b *Backend) outer(env backend.Env, c candidate) cidr.Family {
	v4, v6 := c.halves[cidr.V4].IP, c.halves[cidr.V6].IP
	switch {
	case b.opts.Mode == modeIPv4:
		return cidr.V4
	case b.opts.Mode == modeIPv6:
		return cidr.V6
	case !v6.IsValid():
		return cidr.V4
	case !v4.IsValid():
		return cidr.V6
	case !v4.IsPrivate() && env.Uplink.PublicIP.IsValid():
		return cidr.V4
	case !v6.IsPrivate() && !env.Uplink.PublicIPv6.IsPrivate():
		return cidr.V6
	}
	return cidr.V4
}
