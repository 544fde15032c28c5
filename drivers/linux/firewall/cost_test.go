package firewall

import (
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// TestProcesses: a look without a change starts no process, except for
// iptables-legacy, which does not say whether it changed; a repair starts one.
func TestProcesses(t *testing.T) {
	for _, m := range makings {
		t.Run(m.String(), func(t *testing.T) {
			w := newWorld(t, m.variant)
			var chains []dataplane.Chain
			for _, f := range cidr.Families {
				w.others(t, m, f)
				chains = append(chains, wanted(t, m.flavour, f)...)
			}
			w.apply(t, ops(dataplane.Create, chains)...)
			w.expect(t, chains...)
			w.started(t)
			for range 3 {
				w.expect(t, chains...)
			}
			// Counters and foreign tables are no changes.
			w.sh(t, "nft 'add table inet y; add chain inet y z; add rule inet y z counter'")
			w.talk(t)
			w.expect(t, chains...)
			if d := cmp.Diff(m.unchanged(4), w.started(t)); d != "" {
				t.Errorf("four looks where nothing changed started (-want +have):\n%s", d)
			}

			damage := map[dataplane.Flavour]string{
				dataplane.NFTables: "nft flush chain ip flannel-ipv4 forward", dataplane.IPTables: "iptables -F FLANNEL-FWD",
			}[m.flavour]
			w.sh(t, damage)
			w.inspect(t)
			if d := cmp.Diff(m.changed(), w.started(t)); d != "" {
				t.Errorf("a look after a change started (-want +have):\n%s", d)
			}
			w.apply(t, ops(dataplane.Replace, chains[:2])...)
			write := map[dataplane.Flavour]string{
				dataplane.NFTables: "nft -f -", dataplane.IPTables: "iptables-restore --noflush --wait 5",
			}[m.flavour]
			if d := cmp.Diff(append(m.unchanged(1), write), w.started(t)); d != "" {
				t.Errorf("a repair started (-want +have):\n%s", d)
			}
			w.expect(t, chains...)
			if d := cmp.Diff(m.changed(), w.started(t)); d != "" {
				t.Errorf("the look after it started (-want +have):\n%s", d)
			}
		})
	}
}

// unchanged returns the processes that so many looks start if nothing changed.
func (m making) unchanged(looks int) []string {
	if m.variant != variantLegacy {
		return nil
	}
	return slices.Repeat([]string{"iptables-save", "ip6tables-save"}, looks)
}

// changed returns the processes that a look starts after a change of IPv4
// rules.
func (m making) changed() []string {
	switch {
	case m.variant == variantLegacy:
		return m.unchanged(1)
	case m.flavour == dataplane.IPTables:
		return []string{"iptables-save"}
	}
	return nil
}

// talk sends packets that rules count.
func (w *world) talk(t testing.TB) {
	t.Helper()
	if err := w.ns.Do(func() error {
		for _, to := range []string{"127.0.0.1:9", "[::1]:9"} {
			c, err := net.Dial("udp", to)
			if err != nil {
				return err
			}
			_, err = c.Write([]byte("hello"))
			if errors.Join(err, c.Close()) != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
