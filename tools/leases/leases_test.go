package leases

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/output/outputtest"
)

func key(t *testing.T, text string) lease.Key {
	t.Helper()
	k, err := ParseSubnet(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// snapshot holds a lease, a reservation, a record that does not decode, and one
// outside the network.
func snapshot(t *testing.T) *lease.Snapshot {
	t.Helper()
	record := func(subnet, ip string, id int64) *lease.Lease {
		attrs := lease.Attrs{PublicIP: netip.MustParseAddr(ip), BackendType: "vxlan"}
		return &lease.Lease{Key: key(t, subnet), Attrs: attrs, ModRevision: 7, ID: id}
	}
	return &lease.Snapshot{
		Config: lease.Document{Data: []byte(`{"Network":"10.5.0.0/22","Backend":{"Type":"vxlan"}}`)},
		Leases: []*lease.Lease{
			record("10.5.1.0/24", "192.168.64.1", 5),
			record("10.5.2.0/24", "192.168.64.2", 0),
			record("10.6.1.0/24", "192.168.64.3", 6),
		},
		Quarantined: []lease.Quarantined{{Raw: "/net/subnets/10.5.3.0-24", Key: key(t, "10.5.3.0/24"), Reason: "no JSON"}},
	}
}

// fake notes what is written.
type fake []string

func (f *fake) PutRecord(_ context.Context, l lease.Lease, ttl time.Duration) error {
	*f = append(*f, fmt.Sprintf("put %s %s rev %d ttl %s", l.Key, lease.EncodeAttrs(l.Attrs), l.ModRevision, ttl))
	return nil
}

func (f *fake) DeleteRecord(_ context.Context, l lease.Lease) error {
	*f = append(*f, fmt.Sprintf("delete %s rev %d", l.Key, l.ModRevision))
	return nil
}

func (f *fake) Remaining(context.Context, lease.Lease) (time.Duration, error) { return time.Hour, nil }

func text(t *testing.T, r output.Result) string {
	t.Helper()
	return outputtest.Print(t, output.Printer{}, r)
}

func TestList(t *testing.T) {
	list := Of(snapshot(t), false)
	const want = `SUBNET                    STATE        OWNER         BACKEND  PROBLEM
10.5.1.0-24               leased       192.168.64.1  vxlan
10.5.2.0-24               reserved     192.168.64.2  vxlan
/net/subnets/10.5.3.0-24  quarantined  -             -        no JSON
10.6.1.0-24               leased       192.168.64.3  vxlan    subnet 10.6.1.0-24: ` +
		`10.6.1.0/24 is outside 10.5.1.0 to 10.5.3.0
2 leased, 1 reserved, 1 quarantined, 0 free of 3 (IPv4)
`
	if d := cmp.Diff(want, text(t, list)); d != "" || !list.Trouble() {
		t.Errorf("trouble %t (-want +got):\n%s", list.Trouble(), d)
	}
	empty := Of(&lease.Snapshot{}, false)
	if got := text(t, empty); got != "no records\nproblem: there is no network config\n" || !empty.Trouble() {
		t.Errorf("%s", got)
	}
}

func TestShow(t *testing.T) {
	for subnet, want := range map[string]string{
		"10.5.1.0/24": "subnet:   10.5.1.0-24\nstate:    leased\nowner:    192.168.64.1\nbackend:  vxlan\n" +
			"expires:  in 1h0m0s\n",
		"10.5.2.0/24":   "subnet:   10.5.2.0-24\nstate:    reserved\nowner:    192.168.64.2\nbackend:  vxlan\n",
		"10.5.3.0/24":   "subnet:   /net/subnets/10.5.3.0-24\nstate:    quarantined\nproblem:  no JSON\n",
		"10.5.1.128/25": "subnet:   10.5.1.128-25\nstate:    leased\nproblem:  it overlaps 10.5.1.0-24 of 192.168.64.1\n",
		"10.7.0.0/24": "subnet:   10.7.0.0-24\nstate:    free\nproblem:  subnet 10.7.0.0-24: 10.7.0.0/24 is outside " +
			"10.5.1.0 to 10.5.3.0\n",
	} {
		r, err := Show(t.Context(), new(fake), snapshot(t), key(t, subnet), false)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, text(t, r)); d != "" {
			t.Errorf("%s (-want +got):\n%s", subnet, d)
		}
	}
}

func TestChanges(t *testing.T) {
	const vxlan = `,"PublicIPv6":null,"BackendType":"vxlan"}`
	const first = `put 10.5.1.0-24 {"PublicIP":"192.168.64.1"` + vxlan + ` rev 7 ttl 0s`
	free := func(s *lease.Snapshot) { s.Quarantined = nil }
	for _, c := range []struct {
		verb, subnet, owner string
		change              func(*lease.Snapshot)
		want                string
	}{
		{"reserve", "10.5.1.0/24", "", nil, first},
		{"reserve", "10.5.1.0/24", "192.168.64.1", nil, first},
		{"reserve", "10.5.1.0/24", "192.168.64.9", nil, "the owner of subnet 10.5.1.0-24 is 192.168.64.1, not 192.168.64.9"},
		{"reserve", "10.5.2.0/24", "", nil, "nothing"},
		{"reserve", "10.5.3.0/24", "192.168.64.9", nil,
			`the record "/net/subnets/10.5.3.0-24" does not decode (no JSON); repair or delete it with etcdctl`},
		{"reserve", "10.5.3.0/24", "192.168.64.9", free,
			`put 10.5.3.0-24 {"PublicIP":"192.168.64.9","PublicIPv6":null} rev 0 ttl 0s`},
		{"reserve", "10.5.3.0/24", "", free, "the subnet is free; name its future owner with --owner, by its public IP"},
		{"reserve", "10.7.3.0/24", "192.168.64.9", free, "subnet 10.7.3.0-24: 10.7.3.0/24 is outside 10.5.1.0 to 10.5.3.0"},
		{"unreserve", "10.5.2.0/24", "", nil, `put 10.5.2.0-24 {"PublicIP":"192.168.64.2"` + vxlan + ` rev 7 ttl 24h0m0s`},
		{"unreserve", "10.5.1.0/24", "", nil, "nothing"},
		{"unreserve", "10.5.3.0/24", "", free, "there is no record of subnet 10.5.3.0-24"},
		{"release", "10.5.1.0/24", "192.168.64.1", nil, "delete 10.5.1.0-24 rev 7"},
		{"release", "10.5.1.0/24", "", nil, "name the owner with --owner, by its public IP"},
		{"release", "10.5.1.0/24", "192.168.64.2", nil, "the owner of subnet 10.5.1.0-24 is 192.168.64.1, not 192.168.64.2"},
		{"release", "10.5.0.0/24", "192.168.64.2", nil, "there is no record of subnet 10.5.0.0-24"},
	} {
		t.Run(c.verb+" "+c.subnet+" "+c.owner, func(t *testing.T) {
			snap, in := snapshot(t), new(fake)
			if c.change != nil {
				c.change(snap)
			}
			var owner netip.Addr
			if c.owner != "" {
				owner = netip.MustParseAddr(c.owner)
			}
			var err error
			switch c.verb {
			case "reserve":
				err = Reserve(t.Context(), in, snap, key(t, c.subnet), owner)
			case "unreserve":
				err = Unreserve(t.Context(), in, snap, key(t, c.subnet), owner, 24*time.Hour)
			case "release":
				err = Release(t.Context(), in, snap, key(t, c.subnet), owner)
			}
			got := "nothing"
			if len(*in) > 0 {
				got = (*in)[0]
			}
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestParseSubnet(t *testing.T) {
	for text, want := range map[string]string{
		"10.5.1.0/24":                     "10.5.1.0-24",
		"10.5.1.0-24":                     "10.5.1.0-24",
		"10.5.1.0/24,fd00:10:0:1::/64":    "10.5.1.0-24&fd00:10:0:1::-64",
		"10.5.1.0-24&fd00:10:0:1::-64":    "10.5.1.0-24&fd00:10:0:1::-64",
		"fd00:10:0:1::/64":                "0.0.0.0-0&fd00:10:0:1::-64",
		"10.5.1.7/24":                     "",
		"10.5.1.0/24,10.5.2.0/24":         "",
		"10.5.1.0/24,":                    "",
		"nonsense":                        "",
		"fd00:10:0:1::/64,10.5.1.0/24/24": "",
	} {
		k, err := ParseSubnet(text)
		got := ""
		if err == nil {
			got = k.String()
		}
		if got != want {
			t.Errorf("%s: %s, %v; want %q", text, got, err, want)
		}
	}
}
