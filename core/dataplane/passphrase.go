package dataplane

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// Passphrase is a secret text of the config. It prints as "(secret)" with every
// verb and in JSON; only Reveal shows it. The zero value is no passphrase.
type Passphrase struct{ text string }

// NewPassphrase returns the passphrase with that text.
func NewPassphrase(text string) Passphrase { return Passphrase{text} }

// Reveal returns the text. Only the program that needs the passphrase may get it.
func (p Passphrase) Reveal() string { return p.text }

// Name returns a name for objects: a part of the fingerprint, so that another
// passphrase has another name. It returns "" for none.
func (p Passphrase) Name() SecretName {
	if p.text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("flannel passphrase\n" + p.text))
	return SecretName("psk-" + hex.EncodeToString(sum[:4]))
}

// Format implements [fmt.Formatter].
func (Passphrase) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(secret)") }

// MarshalText implements [encoding.TextMarshaler], and so JSON.
func (Passphrase) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }
