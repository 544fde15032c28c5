package transition

import (
	"slices"

	"github.com/flanneld/flannel/core/backend/backends"
	"github.com/flanneld/flannel/core/lease"
)

// offers reports whether the node's record offers a backend.
func (o Own) offers(id string) bool { return o.Held != nil && backends.Offers(o.Held, id) }

// published reports whether the node's record offers a backend, or is about to.
func (m *Machine) published(own Own, id string) bool {
	if own.Held == nil {
		return m.stood.Has(id)
	}
	return own.offers(id)
}

// maybePublished reports whether a peer may have read a record of the node that offers a
// backend. The store may have written an update whose answer is late or lost.
func (m *Machine) maybePublished(own Own, id string) bool {
	return m.published(own, id) ||
		slices.ContainsFunc(own.Sent, func(a *lease.Attrs) bool { return backends.Offers(a, id) })
}

// Publish returns the attributes for the node's record, from those that offer every backend in use. The record offers a
// backend as soon as the host can receive through it, and leaves out a previous backend that ends.
func (m *Machine) Publish(own Own, source Source, full lease.Attrs) lease.Attrs {
	last, known := source.Last()
	// A backend is ready if the host can receive through it, or if peers already rely on it.
	ready := func(id string) bool {
		return m.stood.Has(id) || m.published(own, id) || own.Held == nil && known && backends.Offers(&last, id)
	}
	return m.set.Publish(full, ready)
}
