package dataplane

import (
	"encoding/hex"
	"fmt"
)

// MAC is an Ethernet address. The zero value means "not set".
type MAC [6]byte

// ParseMAC reads the form aa:bb:cc:dd:ee:ff, in either case.
func ParseMAC(s string) (MAC, error) {
	var m MAC
	if len(s) != 17 {
		return MAC{}, fmt.Errorf("MAC %q: want six hex octets separated by colons", s)
	}
	for i := range m {
		if _, err := hex.Decode(m[i:i+1], []byte(s[i*3:i*3+2])); err != nil || (i < 5 && s[i*3+2] != ':') {
			return MAC{}, fmt.Errorf("MAC %q: want six hex octets separated by colons", s)
		}
	}
	return m, nil
}

// String returns the lowercase, colon-separated form.
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// IsZero reports whether the address is not set.
func (m MAC) IsZero() bool { return m == MAC{} }
