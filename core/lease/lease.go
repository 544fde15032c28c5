package lease

import (
	"encoding/json"
	"math"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
)

// Key is the subnet of a lease, or one subnet for each family. At least one is
// valid; both are masked.
type Key struct {
	V4, V6 netip.Prefix
}

// Of returns the subnet of one family; invalid if the key has none.
func (k Key) Of(f cidr.Family) netip.Prefix {
	return cidr.Pick(f, k.V4, k.V6)
}

// Filter returns the key with only the halves that keep accepts. Keep gets each
// half as a key of its own.
func (k Key) Filter(keep func(f cidr.Family, half Key) bool) Key {
	v4, v6 := Key{V4: k.V4}, Key{V6: k.V6}
	if !v4.IsValid() || !keep(cidr.V4, v4) {
		k.V4 = netip.Prefix{}
	}
	if !v6.IsValid() || !keep(cidr.V6, v6) {
		k.V6 = netip.Prefix{}
	}
	return k
}

// IsValid reports whether the key names a subnet.
func (k Key) IsValid() bool { return k.V4.IsValid() || k.V6.IsValid() }

// Overlaps reports whether the keys share an address in any family. A family
// that one of them lacks is ignored.
func (k Key) Overlaps(o Key) bool {
	return k.V4.Overlaps(o.V4) || k.V6.Overlaps(o.V6)
}

// Attrs is the value of a lease. It tells peers how to reach the owner.
type Attrs struct {
	PublicIP      netip.Addr // invalid if the owner has no IPv4 ("0.0.0.0" on the wire)
	PublicIPv6    netip.Addr // invalid if the owner has no IPv6 (null on the wire)
	BackendType   string     // lowercase; empty for udp, alloc and the cloud backends
	BackendData   json.RawMessage
	BackendV6Data json.RawMessage
	Ways          Ways // an addition to the contract with upstream, which ignores it
	// Creator is the name in the certificate of the node that created the record at
	// a server; empty for other records. It tells peers nothing, and upstream ignores it.
	Creator string
}

// IP returns the public address of one family; invalid if there is none.
func (a Attrs) IP(f cidr.Family) netip.Addr {
	return cidr.Pick(f, a.PublicIP, a.PublicIPv6)
}

// Data returns the backend's data for one family; nil if there is none.
func (a Attrs) Data(f cidr.Family) json.RawMessage {
	return cidr.Pick(f, a.BackendData, a.BackendV6Data)
}

// Equal reports whether both say the same.
func (a Attrs) Equal(o Attrs) bool {
	return a.PublicIP == o.PublicIP && a.PublicIPv6 == o.PublicIPv6 && a.BackendType == o.BackendType &&
		slices.Equal(a.BackendData, o.BackendData) && slices.Equal(a.BackendV6Data, o.BackendV6Data) &&
		a.Ways.Equal(o.Ways) && a.Creator == o.Creator
}

// Lease is one record of the store.
type Lease struct {
	Key   Key
	Attrs Attrs
	// CreateRevision orders the records of a store by age: of two that exclude
	// each other, the older one counts. It is the revision of creation, except
	// in Kubernetes (see nodelease.Node.CreateRevision).
	CreateRevision int64
	ModRevision    int64
	ID             int64 // the store's handle for the TTL; 0: a reservation, which never expires
}

// Youngest is the CreateRevision of a record that the store has lost, and whose host is
// served until it writes another one. Every record in the store is older.
const Youngest = math.MaxInt64

// Reserved reports whether the lease never expires (interop 3.6).
func (l Lease) Reserved() bool { return l.ID == 0 }
