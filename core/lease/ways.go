package lease

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// maxFormer is the largest number of previous backends in one record.
const maxFormer = 4

// Ways tells peers through which backends the owner of a record receives packets, if
// the rest of the record does not show it. It is empty unless the backend is changing,
// or has options on which peers must agree and which the record lacks.
type Ways struct {
	Present json.RawMessage // the identity of the record's own backend; nil: it follows from the record
	Former  []FormerWay     // those that the owner comes from and still receives by, newest first
	Next    *FormerWay      // the one that the owner is about to offer: peers may exchange keys with it; nil: none
}

// FormerWay is the record of a backend that the owner comes from.
type FormerWay struct {
	Backend json.RawMessage // its identity: see backend.Spec.Identity
	Data    json.RawMessage // its BackendData; nil: none
	V6Data  json.RawMessage // its BackendV6Data; nil: none
}

// IsEmpty reports whether there are no ways to publish.
func (w Ways) IsEmpty() bool { return w.Present == nil && len(w.Former) == 0 && w.Next == nil }

// Equal reports whether both say the same to peers.
func (w Ways) Equal(o Ways) bool {
	return bytes.Equal(w.Present, o.Present) &&
		slices.EqualFunc(w.Former, o.Former, FormerWay.Equal) &&
		(w.Next == nil) == (o.Next == nil) && (w.Next == nil || w.Next.Equal(*o.Next))
}

// Equal reports whether both are the same.
func (f FormerWay) Equal(o FormerWay) bool {
	return bytes.Equal(f.Backend, o.Backend) && bytes.Equal(f.Data, o.Data) && bytes.Equal(f.V6Data, o.V6Data)
}

// waysText and formerText are the wire form of [Ways].
type (
	waysText struct {
		Present json.RawMessage `json:",omitempty"`
		Former  []formerText    `json:",omitempty"`
		Next    *formerText     `json:",omitempty"`
	}
	formerText struct {
		Backend       json.RawMessage
		BackendData   json.RawMessage `json:",omitempty"`
		BackendV6Data json.RawMessage `json:",omitempty"`
	}
)

// EncodeWays returns the JSON form of the ways, or nil if they are empty.
// It panics on a part that is not JSON, a bug of the caller.
func EncodeWays(w Ways) []byte {
	if w.IsEmpty() {
		return nil
	}
	text := waysText{Present: w.Present}
	for _, f := range w.Former {
		text.Former = append(text.Former, formerText{f.Backend, f.Data, f.V6Data})
	}
	if n := w.Next; n != nil {
		text.Next = &formerText{n.Backend, n.Data, n.V6Data}
	}
	data, err := json.Marshal(text)
	if err != nil {
		panic(fmt.Sprintf("the ways of a record have no JSON form: %v", err))
	}
	return data
}

// DecodeWays reads what EncodeWays wrote. Missing or null means empty ways.
// It trusts nothing in the text: another host wrote it.
func DecodeWays(data []byte) (Ways, error) {
	if isNull(data) {
		return Ways{}, nil
	}
	var text *waysText
	if err := json.Unmarshal(data, &text); err != nil || text == nil {
		return Ways{}, fmt.Errorf("BackendWays %s: want an object", excerpt(data))
	}
	if len(text.Former) > maxFormer {
		return Ways{}, fmt.Errorf("BackendWays: %d previous backends, more than %d", len(text.Former), maxFormer)
	}
	w := Ways{Present: compact(text.Present)}
	for _, f := range text.Former {
		former := f.way()
		if former.Backend == nil {
			return Ways{}, fmt.Errorf("BackendWays: a previous backend has no Backend")
		}
		w.Former = append(w.Former, former)
	}
	if text.Next != nil {
		next := text.Next.way()
		if next.Backend == nil {
			return Ways{}, fmt.Errorf("BackendWays: the next backend has no Backend")
		}
		w.Next = &next
	}
	return w, nil
}

func (f formerText) way() FormerWay {
	return FormerWay{compact(f.Backend), compact(f.BackendData), compact(f.BackendV6Data)}
}
