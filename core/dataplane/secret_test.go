package dataplane

import (
	"strings"
	"testing"
)

// OpenSSL made the pair of keys.
func TestPublicKeyOfSecret(t *testing.T) {
	secret, err := ParseSecret("0PicxyZ10o9rnULw3wjBwwUPqdIU1fMfpXn6+2MSb0k=")
	if err != nil {
		t.Fatal(err)
	}
	const want = "PD5h2cP/9bLPpivHOEdDal5sy83L1VXFrmYTXJqu9WU="
	if got := secret.PublicKey(); got.String() != want {
		t.Errorf("public key %s, want %s", got, want)
	}
	if key, err := ParsePublicKey(want); err != nil || key != secret.PublicKey() {
		t.Errorf("ParsePublicKey: %s, %v", key, err)
	}
}

func TestParseSecretErrors(t *testing.T) {
	const short, stray = "dwdtCnMYpX08FsFyUbJmRQ==", "dwdtCnMYpX08FsFyUbJmRd9ML5LrwJkqsXf7pR25LCo=\n"
	for text, want := range map[string]string{
		"":                            "want 32 bytes in base64, have 0 bytes",
		short:                         "want 32 bytes in base64, have 16 bytes",
		"s3cr$t":                      "want 32 bytes in base64",
		stray + "x":                   "want 32 bytes in base64",
		strings.Repeat("dwdtCnMY", 6): "want 32 bytes in base64, have 36 bytes",
	} {
		if _, err := ParseSecret(text); err == nil || err.Error() != want {
			t.Errorf("ParseSecret(%q): %v, want %s", text, err, want)
		}
	}
	if _, err := SecretOf(make([]byte, 31)); err == nil {
		t.Error("SecretOf takes 31 bytes")
	}
}

// Other keys have other names, and no key has none.
func TestPSKName(t *testing.T) {
	one, two := Secret{bytes: [SecretSize]byte{1}}, Secret{bytes: [SecretSize]byte{2}}
	if one.PSKName() == two.PSKName() || !one.PSKName().Valid() {
		t.Errorf("names %q and %q", one.PSKName(), two.PSKName())
	}
	if got := (Secret{}).PSKName(); got != "" {
		t.Errorf("no key has the name %q", got)
	}
}
