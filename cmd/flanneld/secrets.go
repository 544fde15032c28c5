package main

import (
	"crypto/rand"
	"path/filepath"

	"github.com/flanneld/flannel/core/agent"
)

// secrets returns the node's secrets, which lie beside the state file.
func (o *options) secrets() agent.FileSecrets {
	state, _ := o.statePaths()
	return agent.FileSecrets{Dir: filepath.Dir(state), Random: rand.Reader}
}
