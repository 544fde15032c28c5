package oracle

import (
	"testing"

	"github.com/flanneld/flannel/core/lease"
)

// TestForgedRecords holds that the oracle demands nothing for a forged record, nor for a younger one that overlaps it,
// and tolerates what a node has for either.
func TestForgedRecords(t *testing.T) {
	h := plain(`{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`)
	text := func(ip string) string { return `{"PublicIP":"` + ip + `","BackendType":"host-gw"}` }
	own := record(t, 1, "10.5.1.0-24", text("192.168.64.1"))
	forged := record(t, 3, "10.5.2.128-25", text("192.168.64.99"))
	h.Forged = []lease.Lease{forged}
	for name, c := range map[string]struct {
		created int
		short   string
	}{
		"younger": {4, ""},
		"older":   {2, "missing route 10.5.2.0/24 via 192.168.64.2 dev eth0"},
	} {
		honest := record(t, c.created, "10.5.2.0-24", text("192.168.64.2"))
		d := demanded(t, h, own, forged, honest)
		have := demanded(t, plain(h.Config), own, forged).want
		if got := d.Tables(have); len(got) > 0 && got[0] != c.short || len(got) == 0 && c.short != "" {
			t.Errorf("%s record: beside objects for the forged one short %q, want %q", name, got, c.short)
		}
	}
}
