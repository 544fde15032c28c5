package dataplane

import (
	"bytes"
	"encoding/base64"
	"fmt"
)

// PublicKey is the public half of a node's private key (X25519). The zero value is no key.
type PublicKey [32]byte

// ParsePublicKey reads a key in base64, as wg(8) prints it. It refuses the zero key.
func ParsePublicKey(text string) (PublicKey, error) {
	var k PublicKey
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(data) != len(k) || k.String() == text {
		return k, fmt.Errorf("public key %.60q: want %d bytes in base64, not all zero", text, len(k))
	}
	return PublicKey(data), nil
}

// IsZero reports whether there is no key.
func (k PublicKey) IsZero() bool { return k == PublicKey{} }

// Compare orders keys by their bytes.
func (k PublicKey) Compare(o PublicKey) int { return bytes.Compare(k[:], o[:]) }

// String returns the key in base64.
func (k PublicKey) String() string { return base64.StdEncoding.EncodeToString(k[:]) }
