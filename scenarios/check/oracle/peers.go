package oracle

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// peer is one family of another node's record.
type peer struct {
	subnet  netip.Prefix
	to      netip.Addr
	created int64 // revision
	written int64 // revision
	mac     dataplane.MAC
	hasMAC  bool // the record has a unicast MAC address
	record  lease.Lease
}

// peers returns the peers to serve in a family, oldest record first. Of two
// records with overlapping subnets the older one counts (interop E7: overlapping leases).
// Two records of one host for one subnet, such as a reservation and the lease for the
// half of it that fits, count as one, with the device address that was written last.
func (d *derivation) peers(f cidr.Family, records []lease.Lease) []peer {
	var all []peer
	for _, r := range records {
		// udp publishes no type, and serves every record (interop 6.0: peers of another type).
		if d.net.backend != "udp" && r.Attrs.BackendType != d.net.backend {
			continue
		}
		if d.offersAnother(r) {
			continue
		}
		p := peer{subnet: r.Key.Of(f), to: r.Attrs.IP(f), created: r.CreateRevision, written: r.ModRevision,
			record: r}
		if d.net.backend == "vxlan" {
			p.mac, p.hasMAC = vtepMAC(r, f)
		}
		if d.serves(f, p) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b peer) int {
		return cmp.Or(cmp.Compare(a.created, b.created), a.subnet.Addr().Compare(b.subnet.Addr()))
	})
	var kept []peer
	for _, p := range all {
		i := slices.IndexFunc(kept, func(k peer) bool { return k.subnet.Overlaps(p.subnet) })
		switch {
		case i < 0:
			kept = append(kept, p)
		case kept[i].subnet == p.subnet && kept[i].to == p.to && kept[i].written < p.written:
			kept[i].written = p.written
			kept[i].mac, kept[i].hasMAC = p.mac, p.hasMAC
			kept[i].record = p.record
			kept[i].record.CreateRevision = kept[i].created
		}
	}
	return kept
}

// offersAnother reports whether a record is for another VXLAN or for other WireGuard devices than the config's:
// its owner has not followed a change of the config yet. Peers reach the owner by a former
// way that both have, if there is one. Once the change has ended, a record without ways counts by its type, as in a
// cluster whose config has never changed (interop 6.2: no node compares the VNI in a peer's data).
func (d *derivation) offersAnother(r lease.Lease) bool {
	otherPort := d.net.backend == "vxlan" && portOf(r.Attrs.Ways) != d.net.options.Port
	if otherPort && (!r.Attrs.Ways.IsEmpty() || d.host.Changed) {
		return true // without ways, it may be of a node that has not followed
	}
	if d.net.backend == "wireguard" && d.offersOtherDevices(r) && (!r.Attrs.Ways.IsEmpty() || d.host.Changed) {
		return true // without ways, it may be of upstream, which names two ports in every mode
	}
	return d.host.Changed && d.hasOtherVNI(r)
}

// hasOtherVNI reports whether a record's data name another VNI than the config.
func (d *derivation) hasOtherVNI(r lease.Lease) bool {
	var data struct{ VNI uint32 }
	for _, f := range cidr.Families {
		if d.net.backend != "vxlan" || json.Unmarshal(r.Attrs.Data(f), &data) != nil {
			continue
		}
		if data.VNI != 0 && data.VNI != d.net.options.VNI {
			return true
		}
	}
	return false
}

// offersOtherDevices reports whether a record is of a node with a WireGuard device for each family where the config
// wants one for both, or the other way round: its halves name two ports, or one.
func (d *derivation) offersOtherDevices(r lease.Lease) bool {
	v4, port, hasV4 := wireGuardHalf(r, true)
	_, portV6, hasV6 := wireGuardHalf(r, false)
	if !hasV4 || !hasV6 || v4.IsZero() || !d.net.of[cidr.V4].IsValid() || !d.net.of[cidr.V6].IsValid() {
		return false
	}
	return (port != portV6) != (d.net.options.Mode == "separate")
}

// portOf returns the port of the VXLAN for which a record in the middle of a change is written. Its data
// does not hold the port, so a record that does not name its backend has the default.
func portOf(w lease.Ways) uint16 {
	present := struct{ Port uint16 }{defaultPort["vxlan"]}
	if w.Present != nil && json.Unmarshal(w.Present, &present) != nil {
		return 0
	}
	return present.Port
}

// serves reports whether a record may attract packets: its subnet is inside the
// Network and outside ours, and its address belongs to another host and is outside the Network.
func (d *derivation) serves(f cidr.Family, p peer) bool {
	network, own := d.net.of[f], d.own.Key.Of(f)
	if !network.IsValid() || !p.subnet.IsValid() || !p.to.IsValid() {
		return false
	}
	if p.subnet.Bits() < network.Bits() || !network.Contains(p.subnet.Addr()) {
		return false
	}
	if own.IsValid() && own.Overlaps(p.subnet) {
		return false
	}
	if !p.to.IsGlobalUnicast() || cidr.FamilyOf(p.to) != f || network.Contains(p.to) {
		return false
	}
	return p.to != d.host.Uplink.Addr[f] && p.to != d.host.Uplink.Public[f]
}

// vtepMAC reads the MAC address of the VXLAN device in a record.
func vtepMAC(r lease.Lease, f cidr.Family) (mac dataplane.MAC, ok bool) {
	mac, err := dataplane.ParseMAC(VTEPMAC(r, f))
	return mac, err == nil && mac != dataplane.MAC{} && mac[0]&1 == 0
}

// VTEPMAC returns the text of the MAC address of the VXLAN device in a record,
// or "" if the record has none. A record of the backend extension may be what a command printed: the
// address alone.
func VTEPMAC(r lease.Lease, f cidr.Family) string {
	var data struct{ VtepMAC string }
	if err := json.Unmarshal(r.Attrs.Data(f), &data); err != nil {
		return printedMAC(r.Attrs.Data(f))
	}
	return data.VtepMAC
}

func printedMAC(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) != nil {
		return ""
	}
	text = strings.TrimSpace(text)
	if _, err := dataplane.ParseMAC(text); err != nil {
		return ""
	}
	return text
}
