package lang

import (
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/scenarios/check/oracle"
)

// TestOracleKnowsEveryBackend asks the oracle for the objects of each backend that a
// node can run.
func TestOracleKnowsEveryBackend(t *testing.T) {
	own := lease.Lease{Key: lease.Key{V4: netip.MustParsePrefix("10.5.1.0/24")}}
	for _, spec := range all.Specs() {
		h := oracle.Host{Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"` + spec.Type + `"}}`}
		if _, err := oracle.Demanded(h, own, nil); err != nil && spec.New != nil {
			t.Error(err)
		}
	}
}
