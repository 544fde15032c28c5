package drivertest

import (
	"crypto/sha256"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// Secrets are the secrets of a driver under test: each is the SHA-256 of its name,
// so that all worlds have the same keys.
type Secrets struct{}

var _ driver.Secrets = Secrets{}

// Secret implements [driver.Secrets].
func (Secrets) Secret(name dataplane.SecretName) (dataplane.Secret, error) {
	sum := sha256.Sum256([]byte(name))
	return dataplane.SecretOf(sum[:])
}
