package main

import (
	"cmp"
	"crypto/rand"
	"path/filepath"

	"github.com/flanneld/flannel/core/agent"
	"github.com/flanneld/flannel/internal/hostpaths"
)

// secrets returns the node's secrets, which are beside the state file, except for
// the WireGuard key, which has a file that other programs know.
func (o *options) secrets() agent.FileSecrets {
	state, _ := o.statePaths()
	return agent.FileSecrets{
		Dir: filepath.Dir(state), Random: rand.Reader,
		KeyFile: cmp.Or(o.getenv("WIREGUARD_KEY_FILE"), hostpaths.KeyFile),
	}
}
