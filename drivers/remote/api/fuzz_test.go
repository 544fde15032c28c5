package api

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flanneld/flannel/core/lease"
)

var addresses = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

func someKey(t testing.TB, text string) lease.Key {
	t.Helper()
	key, err := lease.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestTerms checks that all members survive the header.
func TestTerms(t *testing.T) {
	for _, want := range []Terms{
		{},
		{
			Op: Move, Key: someKey(t, "10.5.1.0-24&fd00:10:5:1::-64"), To: someKey(t, "10.5.2.0-24"), TTL: time.Hour,
			Held: time.Minute, Create: 3, Mod: 9, ID: 7587891, Revision: 12, State: "a+/=& b",
		},
	} {
		got, err := ParseTerms(want.String())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, addresses); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTermsErrors(t *testing.T) {
	for value, want := range map[string]string{
		"":               `header Flannel-Terms: version "" is unknown, want 1`,
		"v=2":            `header Flannel-Terms: version "2" is unknown, want 1`,
		"v=1&mod=x":      `header Flannel-Terms: mod: strconv.ParseInt: parsing "x": invalid syntax`,
		"v=1&ttl=-1":     `header Flannel-Terms: a time is negative`,
		"v=1&key=":       `header Flannel-Terms: key: key "": not a subnet (want A.B.C.D-L or A.B.C.D-L&v6-L)`,
		"v=1;w":          `header Flannel-Terms: invalid semicolon separator in query`,
		"v=1&ttl=1&x=%%": `header Flannel-Terms: invalid URL escape "%%"`,
	} {
		_, err := ParseTerms(value)
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", value, err, want)
		}
	}
}

// FuzzTerms checks that accepted terms have one meaning.
func FuzzTerms(f *testing.F) {
	f.Add("")
	f.Add(Terms{}.String())
	f.Add(Terms{Op: Update, Key: someKey(f, "10.5.1.0-24"), TTL: time.Hour, Mod: 9, ID: -5, State: "x"}.String())
	f.Add("v=1&key=10.5.1.0-24%26fd00%3A%3A-64&mod=9223372036854775808")
	f.Add("v=1&mod=1&mod=2&;&%zz")
	f.Fuzz(func(t *testing.T, value string) {
		terms, err := ParseTerms(value)
		if err != nil {
			return
		}
		back, err := ParseTerms(terms.String())
		if err != nil || back != terms {
			t.Errorf("%q reads as %+v, and its text as %+v, %v", value, terms, back, err)
		}
	})
}

// FuzzFrame checks that any line decodes or is refused, and each of its records.
func FuzzFrame(f *testing.F) {
	l := lease.Lease{
		Key: someKey(f, "10.5.1.0-24"), Attrs: lease.Attrs{PublicIP: netip.MustParseAddr("192.168.64.1")},
		CreateRevision: 3, ModRevision: 4, ID: 5,
	}
	f.Add(Frame{}.Line())
	f.Add(Frame{Error: "the server shuts down"}.Line())
	f.Add(Frame{
		State: "s", Revision: 4, History: 1 << 63, Whole: true, Config: &Document{Data: []byte("{}"), Revision: 2},
		Leases: []Record{RecordOf(&l)}, Quarantined: QuarantinedOf([]lease.Quarantined{{Raw: "x", Reason: "y"}}),
	}.Line())
	f.Add([]byte(`{"state":"s","leases":[{"key":"10.5.1.7-24","attrs":{}},{"key":"x"},{}],"removed":["",null]}`))
	f.Add([]byte(`{"history":"-1","whole":1`))
	f.Fuzz(func(t *testing.T, line []byte) {
		frame, err := ParseFrame(line)
		if err != nil {
			return
		}
		for _, r := range frame.Leases {
			l, err := r.Lease()
			if err != nil {
				continue
			}
			if back, err := RecordOf(&l).Lease(); err != nil || !cmp.Equal(back, l, addresses) {
				t.Errorf("record %+v reads as %+v, and its own form as %+v, %v", r, l, back, err)
			}
		}
		if frame.Quarantined != nil {
			for _, q := range *frame.Quarantined {
				_ = q.Lease()
			}
		}
	})
}

// FuzzWatched reads answers and requests of old programs.
func FuzzWatched(f *testing.F) {
	f.Add([]byte(`{"events":null,"snapshot":[{"Subnet":"10.5.1.0/24","Attrs":{"PublicIP":"1.2.3.4"},` +
		`"Expiration":"0001-01-01T00:00:00Z"}],"cursor":"12"}`))
	f.Add([]byte(`{"events":[{"type":"removed","lease":{"Subnet":"10.5.1.0/24"}}],"cursor":"-1"}`))
	f.Add([]byte(`{"events":[{"type":"added","lease":{"Subnet":"::/0","Attrs":null,"Expiration":""},"network":"x"}]}`))
	f.Add([]byte(`{"snapshot":[{"Subnet":"0.0.0.0/0"},{"Subnet":"10.5.1.7/32"},null]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var w Watched
		if json.Unmarshal(text, &w) != nil {
			return
		}
		_, _ = ParseCursor(w.Cursor)
		for _, l := range w.Snapshot {
			key, attrs, err := l.Decode()
			if err != nil {
				continue
			}
			form, err := json.Marshal(LeaseOf(lease.Lease{Key: key, Attrs: attrs}, l.Expiration))
			if err != nil {
				return // a year beyond 9999
			}
			var again Lease
			if err := json.Unmarshal(form, &again); err != nil {
				t.Fatalf("%s: %v", form, err)
			}
			if k, a, err := again.Decode(); err != nil || k != key || !a.Equal(attrs) {
				t.Errorf("%s reads as %v %+v, and again as %v %+v, %v", form, key, attrs, k, a, err)
			}
		}
	})
}

// FuzzNetworks checks that an answer that is read has a snapshot and a position.
func FuzzNetworks(f *testing.F) {
	for _, seed := range []string{`{"events":null,"snapshot":["blue"],"cursor":"42"}`, `{"snapshot":[],"cursor":"0"}`,
		`{"snapshot":null,"cursor":"1"}`, `{"snapshot":["../x"],"cursor":"-1"}`, `[]`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		names, revision, err := ParseNetworks(body)
		if err == nil && (names == nil || revision < 0) {
			t.Errorf("%q at %d", names, revision)
		}
	})
}
