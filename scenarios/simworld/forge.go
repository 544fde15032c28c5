package simworld

import "github.com/flanneld/flannel/scenarios/lang"

var _ lang.ForeignNodes = (*World)(nil)

// PutNode implements [lang.ForeignNodes].
func (w *World) PutNode(name, podCIDRs string) error { return w.storage.PutNode(name, podCIDRs) }
