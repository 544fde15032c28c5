package driver

import (
	"fmt"
	"io"

	"github.com/flanneld/flannel/core/dataplane"
)

// SecretSize is the size of a secret in bytes.
const SecretSize = 32

// Secret is a value that never leaves its node. It prints as "(secret)" with
// every verb and in JSON; only Bytes reveals it.
type Secret struct{ bytes [SecretSize]byte }

// Secrets keeps a node's secrets across restarts.
type Secrets interface {
	// Secret returns the secret of that name, the same one after each restart. On
	// the first call it draws one.
	Secret(name dataplane.SecretName) (Secret, error)
}

// DrawSecret makes a secret of what a random source returns.
func DrawSecret(random io.Reader) (Secret, error) {
	var s Secret
	if _, err := io.ReadFull(random, s.bytes[:]); err != nil {
		return Secret{}, fmt.Errorf("draw a secret: %w", err)
	}
	return s, nil
}

// ParseSecret returns the secret that Bytes returned.
func ParseSecret(data []byte) (Secret, error) {
	var s Secret
	if len(data) != SecretSize {
		return Secret{}, fmt.Errorf("a secret has %d bytes, not %d", SecretSize, len(data))
	}
	copy(s.bytes[:], data)
	return s, nil
}

// Bytes returns a copy of the secret, for the kernel and for its file alone.
func (s Secret) Bytes() []byte { return append([]byte(nil), s.bytes[:]...) }

// Format implements [fmt.Formatter].
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(secret)") }

// MarshalText implements [encoding.TextMarshaler], and so JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }
