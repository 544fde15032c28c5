package netconfig

import (
	"encoding/json"
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/node"
)

// mostFormerly is the largest number of previous backends in a config.
const mostFormerly = 3

// Following returns a config document as the next one after the stored document. If that has another backend, the
// next one names it in Formerly, before those that the stored one names, so that nodes keep it while the change is
// under way. A document that has the member Formerly already is the operator's word and stays as it is, as does one
// that no node can read.
func Following(document, stored []byte) ([]byte, error) {
	next, _, err := node.CheckConfig(document, false)
	if err != nil || next.Formerly != nil {
		return document, nil
	}
	was, _, err := node.CheckConfig(stored, false)
	if err != nil {
		return document, nil
	}
	formerly := previous(next, was)
	if len(formerly) == 0 {
		return document, nil
	}
	return WithFormerly(document, formerly)
}

// WithFormerly returns a config document that names these previous backends.
func WithFormerly(document []byte, formerly []config.Backend) ([]byte, error) {
	objects := make([]json.RawMessage, 0, len(formerly))
	for _, b := range formerly {
		objects = append(objects, b.Options)
	}
	value, err := json.Marshal(objects)
	if err != nil {
		return nil, err
	}
	return config.WithMember(document, "Formerly", value)
}

// previous returns the backends that nodes have to keep when one config follows another: that of the former config and
// those that it named, newest first, each once, without the next one's own.
func previous(next, was config.Network) []config.Backend {
	seen := []string{identity(next, next.Backend)}
	var formerly []config.Backend
	for _, b := range append([]config.Backend{was.Backend}, was.Formerly...) {
		if b.Type == "" {
			b = config.Backend{Type: all.Default, Options: json.RawMessage(`{"Type":"` + all.Default + `"}`)}
		}
		spec, _ := all.Find(b.Type)
		id := identity(next, b)
		if spec.Alone || spec.IgnoresPeers || id == "" || slices.Contains(seen, id) {
			continue // it cannot run beside another one, or is there
		}
		seen = append(seen, id)
		formerly = append(formerly, b)
	}
	return formerly[:min(len(formerly), mostFormerly)]
}

// identity returns what two nodes of a network have to agree on about a backend, or "" if it has none.
func identity(network config.Network, b config.Backend) string {
	spec, _ := all.Find(b.Type)
	id, err := spec.Identity(b, backend.FamiliesOf(network))
	if err != nil {
		return ""
	}
	return id
}
