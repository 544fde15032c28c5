package reconcile

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Entries of the tables "a" and "b", and ops.
const (
	cloudOwnA     = `cloud-route 10.5.1.0/24 table "a" to "me" self` + "\n"
	cloudOwnB     = `cloud-route 10.5.1.0/24 table "b" to "me" self` + "\n"
	cloudOwn      = cloudOwnA + cloudOwnB
	cloudAddA     = `add cloud-route 10.5.1.0/24 table "a" self` + "\n"
	cloudAddB     = `add cloud-route 10.5.1.0/24 table "b" self` + "\n"
	cloudOtherA   = `cloud-route 10.5.1.0/24 table "a" to "other"` + "\n"
	cloudFormerB  = `cloud-route 10.5.7.0/24 table "b" to "me" self` + "\n"
	cloudPeersA   = `cloud-route 10.5.2.0/24 table "a" to "peer"` + "\n"
	cloudGone     = `cloud-route 10.5.3.0/24 table "a" to "ghost" broken` + "\n"
	cloudOutside  = `cloud-route 10.6.3.0/24 table "a" to "ghost" broken` + "\n" + cloudOutsideA
	cloudOutsideA = `cloud-route 10.6.4.0/24 table "a" to "me" self` + "\n"
	cloudFallback = `cloud-route 0.0.0.0/0 table "a" to "me" self` + "\n" + cloudWider
	cloudWider    = `cloud-route 10.0.0.0/8 table "a" to "me" self` + "\n"
	cloudLocal    = `cloud-route 192.168.0.0/16 table "a" to "local" provided` + "\n"
	cloudOfOthers = cloudPeersA + cloudGone + cloudOutside + cloudFallback + cloudLocal
	cloudDisabled = `cloud-route 10.5.1.0/24 table "a" to "me" self broken` + "\n"
	cloudPending  = `cloud-route 10.5.1.0/24 table "a" to "me" self pending` + "\n"
)

// TestCloud compares the tables "a" and "b" with the route of 10.5.1.0/24, unless a case
// desires nothing.
func TestCloud(t *testing.T) {
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
		{name: "empty tables", want: cloudAddA + cloudAddB},
		{name: "as desired", have: cloudOwn},
		{name: "lost in one table", have: cloudOwnB, want: cloudAddA},
		{name: "of a node that is gone", have: cloudOtherA + cloudOwnB, want: "del " + cloudOtherA + cloudAddA},
		{name: "of a node that is gone, without the store", have: cloudOtherA + cloudOwnB, noPrune: true, withheld: 1},
		{name: "lost, without the store", have: cloudOwnB, noPrune: true, want: cloudAddA},
		{name: "disabled", have: cloudDisabled + cloudOwnB, want: "del " + cloudDisabled + cloudAddA},
		{name: "not yet in force", have: cloudPending + cloudOwnB, pendingCount: 1},
		{name: "a second entry with another name", have: cloudOwn +
			`cloud-route 10.5.1.0/24 table "a" id "x" to "other"` + "\n",
			want: `del cloud-route 10.5.1.0/24 table "a" id "x" to "other"` + "\n"},
		{name: "a former subnet", have: cloudOwn + cloudFormerB, want: "del " + cloudFormerB},
		{name: "a former subnet, without the store", have: cloudOwn + cloudFormerB, noPrune: true, withheld: 1},
		{name: "entries of others", have: cloudOwn + cloudOfOthers},
		{name: "dead entries", have: cloudOwn + cloudOfOthers, sweep: true, want: "del " + cloudGone},
		{name: "nothing is desired",
			have: cloudOwn + cloudPeersA + cloudFallback, nothing: true, want: "del " + cloudOwnA + "del " + cloudOwnB},
		{name: "the provider's own entry", have: cloudOwnB + `cloud-route 10.5.1.0/24 table "a" to "local" provided` + "\n",
			conflict: `route 10.5.1.0/24: the provider's own entry has its place (cloud-route 10.5.1.0/24 table "a" ` +
				`to "local" provided); give the overlay a network apart from those of the cloud`},
		{name: "a narrower entry", have: cloudOwn + `cloud-route 10.5.1.128/25 table "a" to "vpn"` + "\n",
			conflict: `route 10.5.1.0/24: a narrower entry wins over it (cloud-route 10.5.1.128/25 table "a" to "vpn"); ` +
				`remove that or give the overlay another network`},
		{name: "a narrower one to this instance", have: cloudOwn + `cloud-route 10.5.1.128/25 table "a" to "me" self` + "\n",
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
