package migrate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/output/outputtest"
)

const (
	goodConfig = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`
	expiration = `"expiration":"2030-01-01T00:00:00Z","ttl":`
)

// value returns the value of a lease as v0.14 wrote it, quoted for JSON.
func value(ip string) string {
	return fmt.Sprintf(`"{\"PublicIP\":\"%s\",\"BackendType\":\"host-gw\"}"`, ip)
}

// tree returns an answer of the API v2.
func tree(config string, subnets ...string) string {
	return fmt.Sprintf(`{"action":"get","node":{"key":"/net","dir":true,"nodes":[
		{"key":"/net/config","value":%q},
		{"key":"/net/other","dir":true,"nodes":[{"key":"/net/other/config","value":"{}"}]},
		{"key":"/net/subnets","dir":true,"nodes":[%s]}]}}`, config, strings.Join(subnets, ","))
}

// leaf returns a key of a subnet; more are further members.
func leaf(key, value, more string) string {
	return fmt.Sprintf(`{"key":"/net/subnets/%s","value":%s%s}`, key, value, more)
}

// target notes what is created.
type target struct {
	wrote []string
	fail  map[string]error // by subnet
}

func (g *target) SetConfig(_ context.Context, data []byte, revision int64) error {
	g.wrote = append(g.wrote, fmt.Sprintf("config %s if revision %d", data, revision))
	return nil
}

func (g *target) PutRecord(_ context.Context, l lease.Lease, ttl time.Duration) error {
	if err := g.fail[l.Key.String()]; err != nil {
		return err
	}
	g.wrote = append(g.wrote, fmt.Sprintf("%s %s ttl %s if revision %d",
		l.Key, lease.EncodeAttrs(l.Attrs), ttl, l.ModRevision))
	return nil
}

func key(t *testing.T, text string) lease.Key {
	t.Helper()
	k, err := lease.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func records(t *testing.T, answer string) Records {
	t.Helper()
	r, err := parse(http.StatusOK, []byte(answer), "/net/")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func hostGW(t *testing.T, subnet, ip string, id int64) *lease.Lease {
	return &lease.Lease{Key: key(t, subnet), ID: id, ModRevision: 9,
		Attrs: lease.Attrs{PublicIP: netip.MustParseAddr(ip), BackendType: "host-gw"}}
}

// mixed returns records with every outcome.
func mixed(t *testing.T) Records {
	t.Helper()
	return records(t, tree(goodConfig,
		leaf("10.5.1.0-24", value("192.168.64.1"), ","+expiration+"3600"),
		leaf("10.5.2.0-24", value("192.168.64.2"), ""),
		leaf("10.5.3.0-24", value("192.168.64.3"), ","+expiration+"0"),
		leaf("10.5.4.0-24", value("192.168.64.4"), ","+expiration+"3600"),
		leaf("10.5.5.0-24", value("192.168.64.5"), ","+expiration+"3600"),
		leaf("10.5.6.0-24", value("192.168.64.6"), ""),
		leaf("10.5.7.0-24", value("192.168.64.7"), ","+expiration+"3600"),
		leaf("10.5.8.0-25", value("192.168.64.8"), ","+expiration+"3600"),
		leaf("10.5.9.0-24", value("192.168.64.9"), ","+expiration+"99999999999999"),
		leaf("10.5.10.0-24", `"no JSON"`, ","+expiration+"3600"),
		leaf("10.5.011.0-24", value("192.168.64.11"), ","+expiration+"3600"),
		leaf("10.5.12.0-24", value("192.168.64.12"), ","+expiration+"3600"),
		leaf("10.5.13.0-24", value("192.168.64.13"), ","+expiration+"3600"),
		leaf("10.5.14.0-24&fd00:0::-64", value("192.168.64.14"), ","+expiration+"3600"),
	))
}

func TestRun(t *testing.T) {
	old := mixed(t)
	snap := &lease.Snapshot{Leases: []*lease.Lease{
		hostGW(t, "10.5.4.0-24", "192.168.64.4", 5),
		hostGW(t, "10.5.5.0-24", "192.168.64.55", 5),
		hostGW(t, "10.5.6.0-24", "192.168.64.6", 5),
		hostGW(t, "10.5.7.0-24", "192.168.64.7", 5),
		hostGW(t, "10.5.8.0-24", "192.168.64.88", 5),
		hostGW(t, "10.5.200.0-24", "192.168.64.200", 5),
	}}
	snap.Leases[3].Attrs.BackendType = "vxlan"
	into := &target{fail: map[string]error{
		"10.5.12.0-24": &lease.ConflictError{}, "10.5.13.0-24": errors.New("etcd is away"),
	}}
	const want = `OUTCOME   KEY                       DETAIL
created   config
created   10.5.1.0-24               of 192.168.64.1, expires in 1h0m0s
created   10.5.2.0-24               of 192.168.64.2, reserved
expired   10.5.3.0-24
same      10.5.4.0-24               of 192.168.64.4
differs   10.5.5.0-24               its owner is 192.168.64.5 in the old store and 192.168.64.55 in the new one
differs   10.5.6.0-24               it is reserved in one store only
differs   10.5.7.0-24               its owner, 192.168.64.7, has written another value into the new store
differs   10.5.8.0-25               it overlaps another record of the new store
invalid   10.5.9.0-24               its TTL is longer than a year
invalid   10.5.10.0-24              lease value ` + "`no JSON`" + `: not a JSON object
invalid   10.5.011.0-24             key "10.5.011.0-24": ParseAddr("10.5.011.0"): IPv4 field has octet with leading zero
differs   10.5.12.0-24              another program has written it meanwhile; run this again
failed    10.5.13.0-24              etcd is away
invalid   10.5.14.0-24&fd00:0::-64  the key is not in its usual form, 10.5.14.0-24&fd00::-64
only new  10.5.8.0-24               of 192.168.64.88
only new  10.5.200.0-24             of 192.168.64.200
3 created, 1 same, 1 expired, 2 only new, 5 differs, 4 invalid, 1 failed
`
	const v4 = `,"PublicIPv6":null,"BackendType":"host-gw"}`
	wantWrites := []string{
		"config " + goodConfig + " if revision 0",
		`10.5.1.0-24 {"PublicIP":"192.168.64.1"` + v4 + ` ttl 1h0m0s if revision 0`,
		`10.5.2.0-24 {"PublicIP":"192.168.64.2"` + v4 + ` ttl 0s if revision 0`,
	}
	synctest.Test(t, func(t *testing.T) { // so that no time passes
		result := Run(t.Context(), old, snap, into, false)
		if d := cmp.Diff(want, outputtest.Print(t, output.Printer{}, result)); d != "" || !result.Trouble() {
			t.Errorf("trouble %t (-want +got):\n%s", result.Trouble(), d)
		}
		if d := cmp.Diff(wantWrites, into.wrote); d != "" {
			t.Errorf("writes (-want +got):\n%s", d)
		}
	})
}

// A dry run writes nothing, and says which keys a run would create.
func TestDryRun(t *testing.T) {
	into, count := &target{}, 0
	for _, k := range Run(t.Context(), mixed(t), &lease.Snapshot{}, into, true).Keys {
		if k.Outcome == ToCreate {
			count++
		}
	}
	if len(into.wrote) != 0 || count != 10 {
		t.Errorf("a dry run wrote %v, and says that %d are to create", into.wrote, count)
	}
}

// A record gets the TTL that is left when it is written. A record whose time has run
// out meanwhile is not written.
func TestTTLRunsDuringAMigration(t *testing.T) {
	old := records(t, tree(goodConfig,
		leaf("10.5.1.0-24", value("192.168.64.1"), ","+expiration+"60"),
		leaf("10.5.2.0-24", value("192.168.64.2"), ","+expiration+"60"),
		leaf("10.5.3.0-24", value("192.168.64.3"), ","+expiration+"60"),
		leaf("10.5.4.0-24", value("192.168.64.4"), "")))
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTarget{each: 40 * time.Second}
		result := Run(t.Context(), old, &lease.Snapshot{}, slow, false)
		var got []Outcome
		for _, k := range result.Keys {
			got = append(got, k.Outcome)
		}
		if want := []Outcome{Created, Created, Expired, Expired, Created}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		wrote := strings.Join(slow.wrote, "\n")
		if !strings.Contains(wrote, " ttl 20s ") || !strings.Contains(wrote, " ttl 0s ") {
			t.Errorf("wrote %v", slow.wrote)
		}
	})
}

// slowTarget takes its time for each write.
type slowTarget struct {
	target
	each time.Duration
}

func (s *slowTarget) SetConfig(ctx context.Context, data []byte, revision int64) error {
	time.Sleep(s.each) // in virtual time
	return s.target.SetConfig(ctx, data, revision)
}

func (s *slowTarget) PutRecord(ctx context.Context, l lease.Lease, ttl time.Duration) error {
	time.Sleep(s.each)
	return s.target.PutRecord(ctx, l, ttl)
}

func TestConfig(t *testing.T) {
	for name, c := range map[string]struct {
		old  string
		now  lease.Document
		want Outcome
	}{
		"new":     {goodConfig, lease.Document{}, Created},
		"same":    {goodConfig, lease.Document{Data: []byte(goodConfig), Revision: 3}, Same},
		"differs": {goodConfig, lease.Document{Data: []byte("{}"), Revision: 3}, Differs},
		"invalid": {`{"Network":"10.5.0.0/31"}`, lease.Document{}, Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			into := &target{}
			result := Run(t.Context(), records(t, tree(c.old)), &lease.Snapshot{Config: c.now}, into, false)
			if got := result.Keys[0].Outcome; got != c.want || (len(into.wrote) == 1) != (c.want == Created) {
				t.Errorf("%s, want %s; wrote %v", got, c.want, into.wrote)
			}
		})
	}
	if got := Run(t.Context(), Records{}, &lease.Snapshot{}, &target{}, false).Keys[0]; got.Outcome != Invalid {
		t.Errorf("without a config: %+v", got)
	}
}

// Answers that are no tree of the API v2 are errors that name the place, and show no
// password.
func TestFetchErrors(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"no key":    {404, `{"errorCode":100,"message":"Key not found","cause":"/net"}`, "Key not found (100)"},
		"v3 only":   {404, "404 page not found", "need --enable-v2"},
		"no JSON":   {200, "<html>", "not that of an etcd"},
		"no tree":   {200, `{"node":{"key":"/net","value":"x"}}`, "no directory"},
		"too large": {200, strings.Repeat(" ", maxAnswer+1), "more than 67108864 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			from := strings.Replace(server.URL, "http://", "http://user:secret@", 1)
			_, err := Fetch(t.Context(), server.Client(), from, "/net")
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	for _, from := range []string{"10.0.0.1:2379", "ftp://10.0.0.1", "http://", "http://[", ""} {
		_, err := Fetch(t.Context(), http.DefaultClient, from, "/net")
		if err == nil || !strings.Contains(err.Error(), "--from") {
			t.Errorf("%q: %v", from, err)
		}
	}
}

// FuzzAnswer checks that no answer makes a run write a record that a node could not
// read, with a TTL that no store takes, or twice.
func FuzzAnswer(f *testing.F) {
	f.Add(tree(goodConfig, leaf("10.5.1.0-24", value("192.168.64.1"), ","+expiration+"3600")))
	f.Add(tree("{}", leaf("10.5.1.0-24&fd00::-64", value("192.168.64.1"), `,"ttl":-1`)))
	f.Add(`{"errorCode":100,"message":"x"}`)
	f.Fuzz(func(t *testing.T, answer string) {
		old, err := parse(http.StatusOK, []byte(answer), "/net")
		if err != nil {
			return
		}
		into := &strict{t: t, seen: map[lease.Key]bool{}}
		Run(t.Context(), old, &lease.Snapshot{}, into, false)
	})
}

// strict fails the test at a write that is not well-formed.
type strict struct {
	t    *testing.T
	seen map[lease.Key]bool
}

func (s *strict) SetConfig(_ context.Context, _ []byte, revision int64) error {
	if revision != 0 {
		s.t.Errorf("replaces the config of revision %d", revision)
	}
	return nil
}

func (s *strict) PutRecord(_ context.Context, l lease.Lease, ttl time.Duration) error {
	if again, err := lease.ParseKey(l.Key.String()); err != nil || again != l.Key || s.seen[l.Key] || l.ModRevision != 0 {
		s.t.Errorf("writes the key %v: %v", l.Key, err)
	}
	if _, err := lease.DecodeAttrs(lease.EncodeAttrs(l.Attrs)); err != nil {
		s.t.Errorf("writes what no node reads: %v", err)
	}
	if ttl < 0 || ttl > maxTTL || ttl%time.Second != 0 {
		s.t.Errorf("writes a TTL of %s", ttl)
	}
	s.seen[l.Key] = true
	return nil
}
