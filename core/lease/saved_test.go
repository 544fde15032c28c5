package lease

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// all is the state that a daemon keeps over a restart.
type all struct {
	Snapshot Snapshot
	Grant    Grant
}

var byValue = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}, Key{})

func TestSavedReadsBack(t *testing.T) {
	saved := all{
		Snapshot: Snapshot{
			Revision: 42,
			Config:   Document{Data: []byte("{\"Network\": \"10.5.0.0/16\"}\n\xff"), Revision: 3},
			Quarantined: []Quarantined{
				{Raw: "/coreos.com/network/subnets/x", Reason: "not a subnet"},
				{Raw: "/coreos.com/network/subnets/10.5.9.0-24", Key: key("10.5.9.0/24", ""), Reason: "not JSON"},
			},
		},
		Grant: Grant{
			Lease:   Lease{Key: key("10.5.1.0/24", ""), Attrs: wire[0].attrs, CreateRevision: 7, ModRevision: 8, ID: 1 << 60},
			TTL:     24 * time.Hour,
			Expires: time.Date(2024, 2, 29, 1, 2, 3, 4, time.UTC),
		},
	}
	for i, c := range wire {
		saved.Snapshot.Leases = append(saved.Snapshot.Leases, &Lease{
			Key:   Key{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, byte(i), 0}), 24)},
			Attrs: c.attrs, CreateRevision: 5, ModRevision: int64(i),
		})
	}
	saved.Snapshot.Leases[2].Key = key("", "fd00:10:5:1::/64")
	text, err := json.Marshal(saved)
	if err != nil {
		t.Fatal(err)
	}
	var got all
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if d := cmp.Diff(saved, got, byValue); d != "" {
		t.Errorf("read back (-want +got):\n%s", d)
	}
}

func TestSavedErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"Key":"x"}`, `key "x": not a subnet (want A.B.C.D-L or A.B.C.D-L&v6-L)`},
		{`{"Attrs":{"PublicIP":"x"}}`, "lease value: PublicIP `\"x\"`: want an IPv4 address"},
	} {
		if err := json.Unmarshal([]byte(c.text), new(Lease)); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.text, err, c.want)
		}
	}
	_, err := json.Marshal(Lease{Attrs: Attrs{BackendData: json.RawMessage("{")}})
	want := "json: error calling MarshalJSON for type lease.Attrs: BackendData `{` is not JSON"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// AppendJSON writes what encoding/json writes: the same members with the same values.
func TestAppendJSON(t *testing.T) {
	snap := Snapshot{
		Revision: 42, History: 1 << 63,
		Config:      Document{Data: []byte("{}"), Revision: 3, AbsentAt: 2, Deleted: true},
		Quarantined: []Quarantined{{Raw: "x", Key: key("10.5.9.0/24", ""), Reason: "<not> JSON", OverwroteAt: 5}},
	}
	for i, c := range wire {
		snap.Leases = append(snap.Leases, &Lease{Key: key("10.5.1.0/24", "fd00::/64"), Attrs: c.attrs,
			CreateRevision: int64(i), ModRevision: -5, ID: 1 << 60})
	}
	snap.Leases[1].Key = Key{}
	want, err := json.Marshal(snap)
	if err != nil {
		t.Fatal(err)
	}
	got, err := snap.AppendJSON([]byte("  "))
	if err != nil {
		t.Fatal(err)
	}
	var wantValue, gotValue any
	for text, value := range map[string]*any{string(want): &wantValue, string(got): &gotValue} {
		err := json.Unmarshal([]byte(text), value)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	if d := cmp.Diff(wantValue, gotValue); d != "" {
		t.Errorf("AppendJSON (-want +got):\n%s", d)
	}
	snap.Leases[0].Attrs.BackendData = json.RawMessage("{")
	_, err = snap.AppendJSON(nil)
	if err == nil || err.Error() != "lease 10.5.1.0-24&fd00::-64: BackendData `{` is not JSON" {
		t.Errorf("broken data: %v", err)
	}
}

func FuzzSaved(f *testing.F) {
	f.Add([]byte(`{"Snapshot":{"Revision":1,"Config":{"Data":"e30=","Revision":1},` +
		`"Leases":[{"Key":"10.5.1.0-24","Attrs":{"PublicIP":"1.2.3.4","BackendData":{"a":"<b>\u2028"}},"ID":5}],` +
		`"Quarantined":[{"Raw":"x","Key":"","Reason":"y"}]}}`))
	f.Add([]byte(`{"Grant":{"Key":"0.0.0.0-0&fd00::-64","TTL":5,"Expires":"2024-02-29T01:02:03.000000004Z"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var saved, again all
		if json.Unmarshal(text, &saved) != nil {
			return
		}
		written, err := json.Marshal(saved)
		if err != nil {
			t.Skip("only a time beyond the year 9999 has no text")
		}
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		if d := cmp.Diff(saved, again, byValue, cmpopts.EquateApproxTime(0), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("read back (-want +got):\n%s", d)
		}
	})
}
