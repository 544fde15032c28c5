package dataplane

import (
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// SecretName names a value that never leaves its node, such as a private
// key. An object names its secret and never holds it, so a State, a dump or a log
// cannot show one. The driver fetches it by name.
type SecretName string

// WireGuardKey names the private key of a node's [WireGuard] devices. The node
// keeps it across restarts.
const WireGuardKey SecretName = "wireguard-key"

// Valid reports whether the name can be part of a file's name: lower-case
// letters, digits and dashes, 1 to 64 of them.
func (n SecretName) Valid() bool {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789-"
	return n != "" && len(n) <= 64 && strings.Trim(string(n), allowed) == ""
}

// SecretSize is the size of a secret in bytes.
const SecretSize = 32

// Secret is a value that never leaves its node. It prints as "(secret)" with
// every verb and in JSON; only Bytes reveals it.
type Secret struct{ bytes [SecretSize]byte }

// DrawSecret makes a secret from a random source.
func DrawSecret(random io.Reader) (Secret, error) {
	var s Secret
	if _, err := io.ReadFull(random, s.bytes[:]); err != nil {
		return Secret{}, fmt.Errorf("draw a secret: %w", err)
	}
	return s, nil
}

// SecretOf returns the secret with these bytes, as Bytes returned them.
func SecretOf(data []byte) (Secret, error) {
	var s Secret
	if len(data) != SecretSize {
		return Secret{}, fmt.Errorf("a secret has %d bytes, not %d", SecretSize, len(data))
	}
	copy(s.bytes[:], data)
	return s, nil
}

// ParseSecret reads a secret in base64, as wg(8) prints keys. Errors do not show
// the text.
func ParseSecret(text string) (Secret, error) {
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return Secret{}, fmt.Errorf("want %d bytes in base64", SecretSize)
	}
	if len(data) != SecretSize {
		return Secret{}, fmt.Errorf("want %d bytes in base64, have %d bytes", SecretSize, len(data))
	}
	return SecretOf(data)
}

// UnmarshalText implements [encoding.TextUnmarshaler] by ParseSecret, and so JSON.
// No text is no secret.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret{}
	if len(text) == 0 {
		return nil
	}
	secret, err := ParseSecret(string(text))
	if err == nil {
		*s = secret
	}
	return err
}

// Bytes returns a copy of the secret. Only the kernel and the secret's file may get it.
func (s Secret) Bytes() []byte { return append([]byte(nil), s.bytes[:]...) }

// IsZero reports whether all bytes are zero: WireGuard's form of "no secret".
func (s Secret) IsZero() bool { return s == Secret{} }

// PublicKey returns the public half of a private key (X25519).
func (s Secret) PublicKey() PublicKey {
	private, err := ecdh.X25519().NewPrivateKey(s.bytes[:])
	if err != nil {
		panic(err) // only for another length
	}
	return PublicKey(private.PublicKey().Bytes())
}

// PSKName returns the name of a pre-shared key: a part of its fingerprint, so that
// another key has another name. It returns "" for no key.
func (s Secret) PSKName() SecretName {
	if s.IsZero() {
		return ""
	}
	sum := sha256.Sum256(append([]byte("flannel pre-shared key\n"), s.bytes[:]...))
	return SecretName("psk-" + hex.EncodeToString(sum[:4]))
}

// Format implements [fmt.Formatter].
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(secret)") }

// MarshalText implements [encoding.TextMarshaler], and so JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }
