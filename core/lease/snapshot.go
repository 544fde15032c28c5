package lease

// Snapshot is the whole content of a store at one revision. It is immutable once
// handed out.
type Snapshot struct {
	Revision int64
	// History identifies the datastore; 0: unknown. In etcd it is the cluster's
	// id. A restore from a backup begins another history, and revisions of two
	// histories do not compare.
	History     uint64
	Config      Document
	Leases      []*Lease // sorted by Key.String(); unchanged leases keep their pointer in the next snapshot
	Quarantined []Quarantined
}

// Document is the network config as it stands in the store, not yet parsed.
type Document struct {
	Data     []byte
	Revision int64 // of its last change; 0: the store holds no config
	// AbsentAt is a revision at which the store held no config, which has held for the
	// snapshot since; 0: it holds one, or does not say.
	AbsentAt int64 `json:",omitempty"`
	// Deleted means that the store saw the config go, by a delete in the history that it
	// follows. A config that is absent without it may have been lost with the datastore's data.
	Deleted bool `json:",omitempty"`
}

// Quarantined is a record of a subnet that could not be decoded. It affects no
// other record. If its key is valid, no node may take that subnet, and the last
// good record under the key stays among the leases: only a delete removes a peer.
type Quarantined struct {
	Raw    string // the store's full key
	Key    Key    // invalid if the key did not parse
	Reason string
	// OverwroteAt is the revision of the bad value if it overwrote a record that
	// is among the leases; otherwise 0.
	OverwroteAt int64
}
