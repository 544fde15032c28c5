package firewall

import (
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// TestReadsBack makes, replaces and deletes chains in every way there is.
func TestReadsBack(t *testing.T) {
	eachMaking(t, func(t *testing.T, w *world, m making, f cidr.Family) {
		w.expect(t)
		chains := wanted(t, m.flavour, f)
		w.apply(t, ops(dataplane.Create, chains)...)
		w.expect(t, chains...)
		w.apply(t, ops(dataplane.Replace, chains)...)
		w.expect(t, chains...)
		w.apply(t, ops(dataplane.Delete, chains[:1])...)
		w.expect(t, chains[1:]...)
		w.apply(t, ops(dataplane.Delete, chains[1:])...)
		w.expect(t)
	})
}
