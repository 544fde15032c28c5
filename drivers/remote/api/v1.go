package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

// Lease is a lease in the old API (interop 3.9: server API). It has no IPv6 part.
type Lease struct {
	Subnet     netip.Prefix
	Attrs      json.RawMessage // nil only in an event about a network
	Expiration time.Time       // zero: a reservation
}

// LeaseOf returns the old form of a lease.
func LeaseOf(l lease.Lease, expires time.Time) Lease {
	return Lease{Subnet: l.Key.V4, Attrs: lease.EncodeAttrs(l.Attrs), Expiration: expires}
}

// MarshalJSON writes the members in the order of old releases. It writes a zero
// Subnet as 0.0.0.0/0.
func (l Lease) MarshalJSON() ([]byte, error) {
	subnet := l.Subnet
	if !subnet.IsValid() {
		subnet = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return json.Marshal(struct {
		Subnet     netip.Prefix
		Attrs      json.RawMessage
		Expiration time.Time
	}{subnet, l.Attrs, l.Expiration.UTC()})
}

// Decode reads the key and the attributes.
func (l Lease) Decode() (lease.Key, lease.Attrs, error) {
	if !l.Subnet.IsValid() || !l.Subnet.Addr().Is4() || l.Subnet.Bits() == 0 || l.Subnet.Bits() > 31 {
		return lease.Key{}, lease.Attrs{}, fmt.Errorf("subnet %v: want an IPv4 subnet of length 1 to 31", l.Subnet)
	}
	attrs, err := lease.DecodeAttrs(l.Attrs)
	return lease.Key{V4: l.Subnet.Masked()}, attrs, err
}

// Reservation keeps a subnet for a host.
type Reservation struct {
	Subnet   netip.Prefix
	PublicIP netip.Addr
}

// The types of an event.
const (
	Added   = "added"
	Removed = "removed"
)

// Event is a change of a lease or of the set of networks.
type Event struct {
	Type    string `json:"type"`
	Lease   Lease  `json:"lease"`
	Network string `json:"network,omitempty"`
}

// Watched is the answer to a watch of leases. Without events it holds a snapshot.
type Watched struct {
	Events   []Event `json:"events"`
	Snapshot []Lease `json:"snapshot"`
	Cursor   string  `json:"cursor"`
}

// WatchedNetworks is the answer to a watch of the names of networks.
type WatchedNetworks struct {
	Events   []Event  `json:"events"`
	Snapshot []string `json:"snapshot"`
	Cursor   string   `json:"cursor"`
}

// ParseNetworks reads the names of all networks, and the position at which they stand.
func ParseNetworks(body []byte) (names []string, revision int64, err error) {
	var w WatchedNetworks
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, 0, fmt.Errorf("list of networks: %w", err)
	}
	if w.Snapshot == nil {
		return nil, 0, errors.New("list of networks: it has no snapshot")
	}
	revision, err = ParseCursor(w.Cursor)
	if err != nil {
		return nil, 0, fmt.Errorf("list of networks: %w", err)
	}
	return w.Snapshot, revision, nil
}

// Cursor returns the text of a position.
func Cursor(revision int64) string { return strconv.FormatInt(revision, 10) }

// ParseCursor reads a position.
func ParseCursor(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("cursor %q: want a decimal number", text)
	}
	return n, nil
}
