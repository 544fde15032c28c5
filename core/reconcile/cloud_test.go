package reconcile

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCloud compares the tables "a" and "b" with the route of 10.5.1.0/24, unless a case
// desires another one.
func TestCloud(t *testing.T) {
	const (
		ownA     = `cloud-route 10.5.1.0/24 table "a" to "me" self` + "\n"
		ownB     = `cloud-route 10.5.1.0/24 table "b" to "me" self` + "\n"
		own      = ownA + ownB
		addA     = `add cloud-route 10.5.1.0/24 table "a" self` + "\n"
		addB     = `add cloud-route 10.5.1.0/24 table "b" self` + "\n"
		otherA   = `cloud-route 10.5.1.0/24 table "a" to "other"` + "\n"
		formerB  = `cloud-route 10.5.7.0/24 table "b" to "me" self` + "\n"
		peersA   = `cloud-route 10.5.2.0/24 table "a" to "peer"` + "\n"
		gone     = `cloud-route 10.5.3.0/24 table "a" to "ghost" broken` + "\n"
		outside  = `cloud-route 10.6.3.0/24 table "a" to "ghost" broken` + "\n" + `cloud-route 10.6.4.0/24 table "a" to "me" self` + "\n"
		fallback = `cloud-route 0.0.0.0/0 table "a" to "me" self` + "\n" + `cloud-route 10.0.0.0/8 table "a" to "me" self` + "\n"
		local    = `cloud-route 192.168.0.0/16 table "a" to "local" provided` + "\n"
	)
	for _, c := range []struct {
		name, have   string
		noPrune      bool
		sweep        bool
		nothing      bool // is desired
		want         string
		withheld     int
		conflict     string
		pendingCount int
	}{
		{name: "empty tables", want: addA + addB},
		{name: "as desired", have: own},
		{name: "lost in one table", have: ownB, want: addA},
		{name: "of a node that is gone", have: otherA + ownB, want: "del " + otherA + addA},
		{name: "of a node that is gone, without the store", have: otherA + ownB, noPrune: true, withheld: 1},
		{name: "lost, without the store", have: ownB, noPrune: true, want: addA},
		{name: "disabled", have: `cloud-route 10.5.1.0/24 table "a" to "me" self broken` + "\n" + ownB,
			want: `del cloud-route 10.5.1.0/24 table "a" to "me" self broken` + "\n" + addA},
		{name: "not yet in force", have: `cloud-route 10.5.1.0/24 table "a" to "me" self pending` + "\n" + ownB, pendingCount: 1},
		{name: "a second entry with another name", have: own + `cloud-route 10.5.1.0/24 table "a" id "x" to "other"` + "\n",
			want: `del cloud-route 10.5.1.0/24 table "a" id "x" to "other"` + "\n"},
		{name: "a former subnet", have: own + formerB, want: "del " + formerB},
		{name: "a former subnet, without the store", have: own + formerB, noPrune: true, withheld: 1},
		{name: "entries of others", have: own + peersA + gone + outside + fallback + local},
		{name: "dead entries", have: own + peersA + gone + outside + fallback + local, sweep: true, want: "del " + gone},
		{name: "nothing is desired", have: own + peersA + fallback, nothing: true, want: "del " + ownA + "del " + ownB},
		{name: "the provider's own entry", have: ownB + `cloud-route 10.5.1.0/24 table "a" to "local" provided` + "\n",
			conflict: `route 10.5.1.0/24: the provider's own entry has its place (cloud-route 10.5.1.0/24 table "a" to "local" ` +
				`provided); give the overlay a network apart from those of the cloud`},
		{name: "a narrower entry", have: own + `cloud-route 10.5.1.128/25 table "a" to "vpn"` + "\n",
			conflict: `route 10.5.1.0/24: a narrower entry wins over it (cloud-route 10.5.1.128/25 table "a" to "vpn"); ` +
				`remove that or give the overlay another network`},
		{name: "a narrower entry of ours", have: own + `cloud-route 10.5.1.128/25 table "a" to "me" self` + "\n",
			want: `del cloud-route 10.5.1.128/25 table "a" to "me" self` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			desired := "cloud-route 10.5.1.0/24 self\n"
			if c.nothing {
				desired = ""
			}
			plan := Cloud(parse(t, desired), parse(t, c.have), CloudOptions{
				Networks: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16")}, Tables: []string{"a", "b"},
				Prune: !c.noPrune, Sweep: c.sweep,
			})
			if d := cmp.Diff(c.want, opsText(plan.Ops)); d != "" {
				t.Errorf("plan (-want +got):\n%s", d)
			}
			conflict := ""
			for _, o := range plan.Conflicts {
				conflict += o.Error()
			}
			if plan.Withheld != c.withheld || conflict != c.conflict || len(plan.Pending) != c.pendingCount {
				t.Errorf("withheld %d, conflicts %s, pending %v", plan.Withheld, conflict, plan.Pending)
			}
		})
	}
}
