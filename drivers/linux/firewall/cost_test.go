package firewall

import (
	"errors"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// TestProcesses: a look where nothing changed starts none; a repair starts one.
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
			// What packets do to counters is no change, nor is what others do elsewhere.
			w.sh(t, "nft 'add table inet y; add chain inet y z; add rule inet y z counter'")
			w.talk(t)
			w.expect(t, chains...)
			if s := w.started(t); s != nil {
				t.Errorf("a look at nothing new started %q", s)
			}

			damage := map[dataplane.Flavour]string{
				dataplane.NFTables: "nft flush chain ip flannel-ipv4 forward", dataplane.IPTables: "iptables -F FLANNEL-FWD",
			}[m.flavour]
			w.sh(t, damage)
			w.inspect(t)
			read := map[dataplane.Flavour][]string{dataplane.IPTables: {"iptables-save"}}[m.flavour]
			if d := cmp.Diff(read, w.started(t)); d != "" {
				t.Errorf("a look at something new started (-want +have):\n%s", d)
			}
			w.apply(t, ops(dataplane.Replace, chains[:2])...)
			write := map[dataplane.Flavour][]string{
				dataplane.NFTables: {"nft -f -"}, dataplane.IPTables: {"iptables-restore --noflush --wait 5"},
			}[m.flavour]
			if d := cmp.Diff(write, w.started(t)); d != "" {
				t.Errorf("a repair started (-want +have):\n%s", d)
			}
			w.expect(t, chains...)
			if d := cmp.Diff(read, w.started(t)); d != "" {
				t.Errorf("to look at it started (-want +have):\n%s", d)
			}
		})
	}
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
			if _, err = c.Write([]byte("hello")); errors.Join(err, c.Close()) != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
