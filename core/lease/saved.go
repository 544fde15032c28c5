package lease

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// The methods below let encoding/json write and read a [Snapshot] or a [Grant]
// as part of a file, without loss. Keys and attributes have the form that they
// have in a store.

// MarshalText returns the key as a store spells it; no text if it is invalid.
func (k Key) MarshalText() ([]byte, error) {
	if !k.IsValid() {
		return nil, nil
	}
	return []byte(k.String()), nil
}

// UnmarshalText reads what MarshalText wrote.
func (k *Key) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*k = Key{}
		return nil
	}
	parsed, err := ParseKey(string(text))
	if err != nil {
		return err
	}
	*k = parsed
	return nil
}

// MarshalJSON returns the attributes as a store holds them.
func (a Attrs) MarshalJSON() ([]byte, error) { return appendAttrs(nil, a) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (a *Attrs) UnmarshalJSON(text []byte) error {
	decoded, err := DecodeAttrs(text)
	if err != nil {
		return err
	}
	*a = decoded
	return nil
}

// AppendJSON appends the snapshot as encoding/json would write it. The file of a
// large cluster consists of leases, and this takes a tenth of the time.
func (s Snapshot) AppendJSON(b []byte) ([]byte, error) {
	config, err := json.Marshal(s.Config)
	if err != nil {
		return nil, err
	}
	quarantined, err := json.Marshal(s.Quarantined)
	if err != nil {
		return nil, err
	}
	b = fmt.Appendf(b, `{"Revision":%d,"History":%d,"Config":%s,"Quarantined":%s,"Leases":`,
		s.Revision, s.History, config, quarantined)
	b, err = AppendLeases(b, s.Leases)
	return append(b, '}'), err
}

// AppendLeases appends a list of leases as encoding/json would write it.
func AppendLeases(b []byte, leases []*Lease) ([]byte, error) {
	b = append(b, '[')
	for i, l := range leases {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"Key":"`...)
		if l.Key.IsValid() {
			b = l.Key.appendTo(b)
		}
		b = append(b, `","Attrs":`...)
		var err error
		b, err = appendAttrs(b, l.Attrs)
		if err != nil {
			return nil, fmt.Errorf("lease %s: %w", l.Key, err)
		}
		b = append(b, `,"CreateRevision":`...)
		b = strconv.AppendInt(b, l.CreateRevision, 10)
		b = append(b, `,"ModRevision":`...)
		b = strconv.AppendInt(b, l.ModRevision, 10)
		b = append(b, `,"ID":`...)
		b = strconv.AppendInt(b, l.ID, 10)
		b = append(b, '}')
	}
	return append(b, ']'), nil
}
