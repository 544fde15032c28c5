package simworld

import (
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/scenarios/lang"
)

var _ lang.ForeignNodes = (*World)(nil)

// PutNode implements [lang.ForeignNodes].
func (w *World) PutNode(name, podCIDRs string) error { return w.storage.PutNode(name, podCIDRs) }

// StateFile returns the state file of a node's daemon.
func (w *World) StateFile(name string) []byte {
	text, _ := w.nodes[name].daemon.File(node.StateFile)
	return text
}
