package lease

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// maxValue is the longest lease value that DecodeAttrs reads, in bytes. Backends
// write less than a kilobyte; only an extension's command may write more.
const maxValue = 64 << 10

// maxQuoted bounds the part of a peer's text that an error repeats, in bytes.
const maxQuoted = 64

// EncodeAttrs returns the value of a lease as a store holds it (interop 3.3). It
// panics on backend data that is not JSON, a bug of the backend (interop E1: one
// such record makes every upstream node drop all its peers).
func EncodeAttrs(a Attrs) []byte {
	b, err := appendAttrs(nil, a)
	if err != nil {
		panic(fmt.Sprintf("encoding a lease: %v", err))
	}
	return b
}

// appendAttrs appends the value of a lease. It fails if backend data is not JSON.
func appendAttrs(b []byte, a Attrs) ([]byte, error) {
	v4 := a.PublicIP
	if !v4.IsValid() {
		v4 = netip.IPv4Unspecified()
	}
	b = append(b, `{"PublicIP":"`...)
	b = v4.AppendTo(b)
	b = append(b, `","PublicIPv6":`...)
	if a.PublicIPv6.IsValid() {
		b = append(b, '"')
		b = a.PublicIPv6.AppendTo(b)
		b = append(b, '"')
	} else {
		b = append(b, "null"...)
	}
	if a.BackendType != "" {
		b = append(b, `,"BackendType":`...)
		b = appendQuoted(b, a.BackendType)
	}
	b, err := appendData(b, "BackendData", a.BackendData)
	if err != nil {
		return nil, err
	}
	b, err = appendData(b, "BackendV6Data", a.BackendV6Data)
	if err != nil {
		return nil, err
	}
	b, err = appendData(b, "BackendWays", EncodeWays(a.Ways))
	if err != nil {
		return nil, err
	}
	if a.Creator != "" {
		b = append(b, `,"Creator":`...)
		b = appendQuoted(b, a.Creator)
	}
	return append(b, '}'), nil
}

// appendQuoted appends a string as encoding/json writes it.
func appendQuoted(b []byte, s string) []byte {
	if plain(s, `"\<>&`) {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("a string has no JSON form: %v", err))
	}
	return append(b, text...)
}

// appendData appends a member without blanks in its value; nothing for an empty value.
func appendData(b []byte, member string, data json.RawMessage) ([]byte, error) {
	if len(data) == 0 {
		return b, nil
	}
	if !json.Valid(data) {
		return nil, fmt.Errorf("%s %s is not JSON", member, excerpt(data))
	}
	b = append(b, `,"`...)
	b = append(b, member...)
	b = append(b, `":`...)
	if plain(data, " ") {
		return append(b, data...), nil
	}
	compacted := bytes.NewBuffer(b)
	err := json.Compact(compacted, data)
	return compacted.Bytes(), err
}

// DecodeAttrs reads the value of a lease, and trusts nothing in it: another host
// wrote it. As upstream does, it fills in members that older releases left out,
// ignores unknown members, and matches names in either case.
func DecodeAttrs(value []byte) (Attrs, error) {
	if len(value) > maxValue {
		return Attrs{}, fmt.Errorf("lease value: %d bytes long, more than %d", len(value), maxValue)
	}
	var raw *struct {
		PublicIP, PublicIPv6, BackendType, BackendData, BackendV6Data json.RawMessage

		BackendWays, Creator json.RawMessage // our additions
	}
	if err := json.Unmarshal(value, &raw); err != nil || raw == nil {
		return Attrs{}, fmt.Errorf("lease value %s: not a JSON object", excerpt(value))
	}
	if raw.PublicIP == nil {
		return Attrs{}, fmt.Errorf("lease value %s: PublicIP is missing", excerpt(value))
	}
	v4, err := decodeAddr(raw.PublicIP)
	if err != nil || !v4.Is4() {
		return Attrs{}, fmt.Errorf("lease value: PublicIP %s: want an IPv4 address", excerpt(raw.PublicIP))
	}
	v6, err := decodeAddr(raw.PublicIPv6)
	if err != nil || v6.Is4() {
		return Attrs{}, fmt.Errorf("lease value: PublicIPv6 %s: want an IPv6 address or null", excerpt(raw.PublicIPv6))
	}
	backendType, err := decodeString(raw.BackendType)
	if err != nil {
		return Attrs{}, fmt.Errorf("lease value: BackendType %s: want a string", excerpt(raw.BackendType))
	}
	ways, err := DecodeWays(raw.BackendWays)
	if err != nil {
		return Attrs{}, fmt.Errorf("lease value: %w", err)
	}
	creator, _ := decodeString(raw.Creator) // another program may use the name for something else
	if v4.IsUnspecified() {
		v4 = netip.Addr{}
	}
	if v6.IsUnspecified() {
		v6 = netip.Addr{}
	}
	return Attrs{
		PublicIP: v4, PublicIPv6: v6, BackendType: strings.ToLower(backendType),
		BackendData: compact(raw.BackendData), BackendV6Data: compact(raw.BackendV6Data),
		Ways: ways, Creator: creator,
	}, nil
}

func isNull(raw json.RawMessage) bool { return raw == nil || string(raw) == "null" }

// plain reports whether text is printable ASCII with none of the given
// characters, as nearly all is. Such JSON text is its own decoded form.
func plain[text ~string | ~[]byte](raw text, without string) bool {
	for i := range len(raw) {
		if c := raw[i]; c < ' ' || c > '~' || strings.IndexByte(without, c) >= 0 {
			return false
		}
	}
	return true
}

func decodeString(raw json.RawMessage) (string, error) {
	if isNull(raw) {
		return "", nil
	}
	if raw[0] == '"' && plain(raw, `\`) {
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}

// decodeAddr returns no address for a missing or null one. Zones mean nothing
// on another host, and an IPv4-mapped address is of neither family.
func decodeAddr(raw json.RawMessage) (netip.Addr, error) {
	s, err := decodeString(raw)
	if err != nil || isNull(raw) {
		return netip.Addr{}, err
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, err
	}
	if a.Zone() != "" || a.Is4In6() {
		return netip.Addr{}, fmt.Errorf("%s has a zone or is IPv4-mapped", a)
	}
	return a, nil
}

// compact returns the data as encoding/json writes it, without blanks and with
// <, > and & escaped, so that equal data stays equal on every path. It returns
// nil for null, which some releases wrote for backends without data.
func compact(raw json.RawMessage) json.RawMessage {
	if isNull(raw) {
		return nil
	}
	if plain(raw, " <>&") {
		return slices.Clone(raw)
	}
	var blankless, b bytes.Buffer
	if err := json.Compact(&blankless, raw); err != nil {
		panic(fmt.Sprintf("decoded JSON is not JSON: %v", err))
	}
	json.HTMLEscape(&b, blankless.Bytes())
	return b.Bytes()
}

// excerpt quotes the beginning of a text for an error.
func excerpt(text []byte) string {
	if len(text) > maxQuoted {
		return fmt.Sprintf("%#q...", text[:maxQuoted])
	}
	return fmt.Sprintf("%#q", text)
}
