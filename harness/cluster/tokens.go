package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
)

const (
	tokenKey  = "sa.key"  // signs the tokens of service accounts
	tokenKeys = "sa.keys" // with these the API server verifies them
)

// RotateTokenKey makes the API server sign tokens of service accounts with a new key. It still
// accepts tokens of the former key until RevokeTokens.
func (c *Cluster) RotateTokenKey(ctx context.Context) error {
	former, err := os.ReadFile(c.path("files", tokenKey))
	if err != nil {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	return c.setTokenKeys(ctx, key, append(bytes.Clone(key), former...))
}

// RevokeTokens makes the API server refuse all tokens that another than the newest key has signed.
func (c *Cluster) RevokeTokens(ctx context.Context) error {
	key, err := os.ReadFile(c.path("files", tokenKey))
	if err != nil {
		return err
	}
	return c.setTokenKeys(ctx, key, key)
}

// setTokenKeys restarts the API server with a key that signs, and keys that verify.
func (c *Cluster) setTokenKeys(ctx context.Context, sign, verify []byte) error {
	for name, data := range map[string][]byte{tokenKey: sign, tokenKeys: verify} {
		if err := os.WriteFile(c.path("files", name), data, 0o600); err != nil {
			return err
		}
	}
	if err := c.StopAPIServer(ctx); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

// newKey returns a private key of RSA.
func newKey() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
}
