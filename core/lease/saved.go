package lease

import (
	"encoding/json"
	"fmt"
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
func (a Attrs) MarshalJSON() ([]byte, error) {
	for _, data := range []json.RawMessage{a.BackendData, a.BackendV6Data} {
		if len(data) > 0 && !json.Valid(data) {
			return nil, fmt.Errorf("backend data %s is not JSON", excerpt(data))
		}
	}
	return EncodeAttrs(a), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (a *Attrs) UnmarshalJSON(text []byte) error {
	decoded, err := DecodeAttrs(text)
	if err != nil {
		return err
	}
	*a = decoded
	return nil
}
