package api

import (
	"encoding/json"
	"fmt"

	"github.com/flanneld/flannel/core/lease"
)

// Frame is one line of a watch's stream: a whole snapshot, or what has changed
// since the line before. A line without a State is a sign of life, or holds an
// Error.
type Frame struct {
	// State identifies the content after this frame. All servers agree on it.
	State    string `json:"state,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	History  uint64 `json:"history,omitempty,string"`
	// Whole means that the frame holds all leases, and not only changed ones.
	Whole   bool      `json:"whole,omitempty"`
	Config  *Document `json:"config,omitempty"` // nil: unchanged
	Leases  []Record  `json:"leases,omitempty"`
	Removed []string  `json:"removed,omitempty"`
	// Quarantined holds all records set aside; nil: unchanged.
	Quarantined *[]Quarantined `json:"quarantined,omitempty"`
	// Error says why the server ends the stream.
	Error string `json:"error,omitempty"`
}

// Document is the network config.
type Document struct {
	Data     []byte `json:"data"`
	Revision int64  `json:"revision"`
	AbsentAt int64  `json:"absentAt,omitempty"` // see lease.Document
	Deleted  bool   `json:"deleted,omitempty"`
}

// DocumentOf returns the form of a config in a frame.
func DocumentOf(d lease.Document) *Document {
	return &Document{Data: d.Data, Revision: d.Revision, AbsentAt: d.AbsentAt, Deleted: d.Deleted}
}

// Record is one lease.
type Record struct {
	Key    string          `json:"key"`
	Attrs  json.RawMessage `json:"attrs"` // as in interop 3.3 (lease value)
	Create int64           `json:"create"`
	Mod    int64           `json:"mod"`
	ID     int64           `json:"id,omitempty"`
}

// Quarantined is a record that the server could not decode.
type Quarantined struct {
	Raw         string `json:"raw"`
	Key         string `json:"key,omitempty"`
	Reason      string `json:"reason"`
	OverwroteAt int64  `json:"overwroteAt,omitempty"`
}

// RecordOf returns the wire form of a lease.
func RecordOf(l *lease.Lease) Record {
	return Record{
		Key: l.Key.String(), Attrs: lease.EncodeAttrs(l.Attrs),
		Create: l.CreateRevision, Mod: l.ModRevision, ID: l.ID,
	}
}

// Lease reads a record. It trusts nothing in it, since some node wrote it.
func (r Record) Lease() (lease.Lease, error) {
	key, err := lease.ParseKey(r.Key)
	if err != nil {
		return lease.Lease{}, err
	}
	if key.String() != r.Key {
		return lease.Lease{}, fmt.Errorf("key %q: not in its canonical form %s", r.Key, key)
	}
	attrs, err := lease.DecodeAttrs(r.Attrs)
	if err != nil {
		return lease.Lease{}, err
	}
	return lease.Lease{Key: key, Attrs: attrs, CreateRevision: r.Create, ModRevision: r.Mod, ID: r.ID}, nil
}

// QuarantinedOf returns the wire form of records set aside.
func QuarantinedOf(list []lease.Quarantined) *[]Quarantined {
	all := make([]Quarantined, 0, len(list))
	for _, q := range list {
		w := Quarantined{Raw: q.Raw, Reason: q.Reason, OverwroteAt: q.OverwroteAt}
		if q.Key.IsValid() {
			w.Key = q.Key.String()
		}
		all = append(all, w)
	}
	return &all
}

// Lease reads a record set aside. It has no key if the key does not parse.
func (q Quarantined) Lease() lease.Quarantined {
	l := lease.Quarantined{Raw: q.Raw, Reason: q.Reason, OverwroteAt: q.OverwroteAt}
	if key, err := lease.ParseKey(q.Key); err == nil {
		l.Key = key
	}
	return l
}

// Line encodes a frame as a line of the stream.
func (f Frame) Line() []byte {
	text, err := json.Marshal(f)
	if err != nil {
		panic(fmt.Sprintf("a frame has no JSON form: %v", err)) // attributes are JSON once encoded
	}
	return append(text, '\n')
}

// ParseFrame reads a line of the stream.
func ParseFrame(line []byte) (Frame, error) {
	var f Frame
	if err := json.Unmarshal(line, &f); err != nil {
		return Frame{}, fmt.Errorf("line of a watch: %w", err)
	}
	return f, nil
}
