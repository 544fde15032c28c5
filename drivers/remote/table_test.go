package remote

import (
	"fmt"
	"testing"

	"github.com/flanneld/flannel/drivers/remote/api"
)

func record(key string, mod int64) api.Record {
	return api.Record{Key: key, Attrs: []byte(`{"PublicIP":"192.168.64.1"}`), Create: 1, Mod: mod, ID: 7}
}

// show lists keys and revisions.
func show(t *table) string {
	text := ""
	for _, l := range t.snapshot.Leases {
		text += fmt.Sprintf("%s@%d ", l.Key, l.ModRevision)
	}
	for _, q := range t.snapshot.Quarantined {
		text += "!" + q.Raw + " "
	}
	return text
}

// after applies frames one by one.
func after(t *testing.T, frames ...api.Frame) *table {
	t.Helper()
	var tab *table
	for _, f := range frames {
		next, err := tab.after(f)
		if err != nil {
			t.Fatal(err)
		}
		tab = next
	}
	return tab
}

func whole(revision int64, records ...api.Record) api.Frame {
	return api.Frame{Whole: true, State: "s", Revision: revision, History: 5, Leases: records}
}

func TestFrames(t *testing.T) {
	bad := &[]api.Quarantined{{Raw: "/n/subnets/10.5.2.0-24", Key: "10.5.2.0-24", Reason: "garbage"}}
	two := whole(5, record("10.5.2.0-24", 3), record("10.5.1.0-24", 2))
	blocked := whole(6, record("10.5.1.0-24", 2))
	blocked.Quarantined = bad
	older, another := blocked, blocked
	older.Revision, another.History = 4, 6
	for name, c := range map[string]struct {
		frames []api.Frame
		want   string
	}{
		"a whole snapshot is sorted": {[]api.Frame{two}, "10.5.1.0-24@2 10.5.2.0-24@3 "},
		"another one replaces it":    {[]api.Frame{two, whole(7, record("10.5.3.0-24", 7))}, "10.5.3.0-24@7 "},
		"changes": {[]api.Frame{two, {
			Revision: 8, History: 5, Removed: []string{"10.5.1.0-24", "10.5.77.0-24"},
			Leases: []api.Record{record("10.5.9.0-24", 8), record("10.5.0.0-24", 7), record("10.5.2.0-24", 6)},
		}}, "10.5.0.0-24@7 10.5.2.0-24@6 10.5.9.0-24@8 "},
		"a record that does not decode affects no other": {[]api.Frame{whole(5, record("10.5.2.0-24", 3),
			record("10.5.1.7-24", 3), record("x", 3), api.Record{Key: "10.5.4.0-24"})},
			"10.5.2.0-24@3 !10.5.1.7-24 !10.5.4.0-24 !x "},
		"it leaves quarantine with its next value": {[]api.Frame{whole(5, record("x", 3), api.Record{Key: "10.5.4.0-24"}),
			{Revision: 6, History: 5, Leases: []api.Record{record("10.5.4.0-24", 6)}}}, "10.5.4.0-24@6 !x "},
		"the last good record survives a server that never saw it": {[]api.Frame{two, blocked},
			"10.5.1.0-24@2 10.5.2.0-24@3 !/n/subnets/10.5.2.0-24 "},
		"until its key leaves quarantine": {[]api.Frame{two, blocked,
			{Revision: 8, History: 5, Quarantined: &[]api.Quarantined{}}}, "10.5.1.0-24@2 "},
		"but not in another datastore":  {[]api.Frame{two, another}, "10.5.1.0-24@2 !/n/subnets/10.5.2.0-24 "},
		"and not in one that went back": {[]api.Frame{two, older}, "10.5.1.0-24@2 !/n/subnets/10.5.2.0-24 "},
		"one record for a key, the first": {[]api.Frame{whole(5, record("10.5.2.0-24", 3), record("10.5.2.0-24", 4))},
			"10.5.2.0-24@3 "},
	} {
		t.Run(name, func(t *testing.T) {
			if got := show(after(t, c.frames...)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	if _, err := (*table)(nil).after(api.Frame{State: "s"}); err == nil {
		t.Error("the table accepts changes before a snapshot")
	}
}

// TestUnchangedKeepPointers checks the promise of lease.Snapshot, also over a
// reconnection.
func TestUnchangedKeepPointers(t *testing.T) {
	first := after(t, whole(5, record("10.5.1.0-24", 2), record("10.5.2.0-24", 3)))
	second, err := first.after(whole(6, record("10.5.1.0-24", 2), record("10.5.2.0-24", 6)))
	if err != nil {
		t.Fatal(err)
	}
	was, is := first.snapshot.Leases, second.snapshot.Leases
	if was[0] != is[0] || was[1] == is[1] {
		t.Errorf("pointers before %p %p, after %p %p", was[0], was[1], is[0], is[1])
	}
}

// FuzzTable applies arbitrary frames: no record gets lost or out of order.
func FuzzTable(f *testing.F) {
	two := whole(5, record("10.5.2.0-24", 3), record("10.5.1.0-24", 2))
	f.Add(two.Line(), api.Frame{Revision: 6, Removed: []string{"10.5.1.0-24"}}.Line())
	blocked := whole(6)
	blocked.Quarantined = &[]api.Quarantined{{Raw: "10.5.2.0-24", Key: "10.5.2.0-24"}}
	f.Add(two.Line(), blocked.Line())
	f.Add([]byte(`{"whole":true,"leases":[{"key":"x"},{"key":"x"}]}`), []byte(`{"leases":[{"key":"x"}],"removed":["x"]}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var tab *table
		for _, line := range [][]byte{first, second} {
			frame, err := api.ParseFrame(line)
			if err != nil {
				return
			}
			tab, err = tab.after(frame)
			if err != nil {
				return
			}
			for i, e := range tab.entries {
				if e.name != e.lease.Key.String() || i > 0 && tab.entries[i-1].name >= e.name {
					t.Fatalf("entries out of order: %s", show(tab))
				}
			}
			if len(tab.snapshot.Leases) != len(tab.entries) {
				t.Fatal("the snapshot lacks entries")
			}
		}
	})
}

func TestServers(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Servers: []string{"a:1", "10.0.0.1:8888"}}, "http://a:1/v1/_ http://10.0.0.1:8888/v1/_ "},
		{Options{Servers: []string{"a:1"}, CAFile: "x", Prefix: "/p/v1/blue/"}, "https://a:1/p/v1/blue "},
		{Options{Servers: []string{"[fd00::1]:1", "https://a:2/"}}, "http://[fd00::1]:1/v1/_ https://a:2/v1/_ "},
		{Options{}, "--remote: no server given"},
		{Options{Servers: []string{""}}, `--remote: "": want HOST:PORT`},
		{Options{Servers: []string{"a"}}, `--remote: "a": want HOST:PORT`},
		{Options{Servers: []string{"a:1/v1"}}, `--remote: "a:1/v1": want HOST:PORT`},
		{Options{Servers: []string{"a:99999"}}, `--remote: "a:99999": 99999 is no port`},
		{Options{Servers: []string{"ftp://a:1"}},
			`--remote: "ftp://a:1": want HOST:PORT, http://HOST:PORT or https://HOST:PORT`},
		{Options{Servers: []string{"http://a:1"}, CAFile: "x"}, `--remote: "http://a:1": the TLS files need https`},
		{Options{Servers: []string{"https://u:secret@a:1"}},
			"--remote: a server holds a user; clients identify by --remote-certfile"},
	} {
		bases, err := c.o.withDefaults().bases()
		got := ""
		for _, b := range bases {
			got += b + " "
		}
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v:\ngot  %s\nwant %s", c.o, got, c.want)
		}
	}
}
