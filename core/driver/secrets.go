package driver

import "github.com/flanneld/flannel/core/dataplane"

// Secrets keeps a node's secrets across restarts.
type Secrets interface {
	// Secret returns the secret of that name, the same one after each restart. On
	// the first call it draws one.
	Secret(name dataplane.SecretName) (dataplane.Secret, error)
}
