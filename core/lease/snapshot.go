package lease

// Snapshot is all a store holds, at one revision. It is immutable once handed out.
type Snapshot struct {
	Revision int64
	// History tells the datastore apart from others, by an id that etcd calls
	// its cluster's; 0: unknown. Revisions of two histories do not compare: a
	// restore from a backup begins another one.
	History     uint64
	Config      Document
	Leases      []*Lease // sorted by Key.String(); what stays is the same lease in the next snapshot
	Quarantined []Quarantined
}

// Document is the network config as it stands in the store, not yet parsed.
type Document struct {
	Data     []byte
	Revision int64 // of its last change; 0: the store holds no config
}

// Quarantined is a record below the subnets that could not be decoded. It
// touches no other record, but where its key is valid it still blocks its
// subnet from being handed out, and the last good record that the store knows
// under the key stands among the leases: no peer is removed without a delete.
type Quarantined struct {
	Raw    string // the store's full key
	Key    Key    // invalid if the key did not parse
	Reason string
	// OverwroteAt is the revision of the bad value if it took the place of a
	// record that stands among the leases; otherwise 0.
	OverwroteAt int64
}
