package servers

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/drivers/remote/server"
)

// oldClient is a stand-in for a client of v0.5 to v0.7, by interop 3.9.
type oldClient struct {
	t    *testing.T
	base string
	http *http.Client
}

// ask sends a request, and returns status and body in one text.
func (c oldClient) ask(method, path, body string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/json; charset=utf-8" {
		c.t.Errorf("%s %s: content type %q", method, path, got)
	}
	if header := resp.Header.Get("Flannel-Terms"); header != "" {
		c.t.Errorf("%s %s: an old client gets terms: %s", method, path, header)
	}
	return resp.Status[:3] + " " + string(text)
}

var (
	expiration = regexp.MustCompile(`"Expiration":"20\d\d-\d\d-\d\dT[^"]*Z"`)
	cursor     = regexp.MustCompile(`"cursor":"\d+"`)
)

// want compares an answer byte for byte, except for times and cursors.
func (c oldClient) want(answer, want string) {
	c.t.Helper()
	got := cursor.ReplaceAllString(expiration.ReplaceAllString(answer, `"Expiration":"TIME"`), `"cursor":"N"`)
	if got != want {
		c.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// cursorOf returns the cursor of an answer.
func (c oldClient) cursorOf(answer string) string {
	c.t.Helper()
	m := cursor.FindString(answer)
	if m == "" {
		c.t.Fatalf("no cursor in %s", answer)
	}
	return strings.Trim(strings.TrimPrefix(m, `"cursor":`), `"`)
}

const (
	oldConfig = `{"Network":"10.5.3.0/16","Backend":{"Type":"host-gw"}}`
	attrs1    = `{"PublicIP":"192.168.64.1","PublicIPv6":null,"BackendType":"host-gw"}`
	attrs2    = `{"PublicIP":"192.168.64.2","PublicIPv6":null,"BackendType":"host-gw"}`
	lease1    = `{"Subnet":"10.5.1.0/24","Attrs":` + attrs1 + `,"Expiration":"TIME"}`
	never     = `"Expiration":"0001-01-01T00:00:00Z"`
	reserved1 = `{"Subnet":"10.5.1.0/24","Attrs":` + attrs1 + `,` + never + `}`
	noLease   = `{"Subnet":"0.0.0.0/0","Attrs":null,` + never + `}`
)

func newOldClient(t *testing.T) (oldClient, datastore) {
	t.Helper()
	d := newPrefix(startEtcd(t))
	return d.oldClient(t), d
}

func (d datastore) oldClient(t *testing.T) oldClient {
	t.Helper()
	addr := d.serve(t, server.Options{}, nil).addr
	return oldClient{t, "http://" + addr, http.DefaultClient}
}

// TestOldClient checks that an old client gets the answers that interop 3.9 promises it,
// from its first request to its last.
func TestOldClient(t *testing.T) {
	c, d := newOldClient(t)
	d.Put(t, "config", oldConfig, 0)
	eventually(t, "the config", func() bool { return strings.HasPrefix(c.ask("GET", "/v1/_/config", ""), "200") })
	c.want(c.ask("GET", "/v1/_/config", ""), `200 {"Backend":{"Type":"host-gw"},"Network":"10.5.0.0/16",`+
		`"SubnetLen":24,"SubnetMax":"10.5.255.0","SubnetMin":"10.5.1.0"}`)
	empty := c.ask("GET", "/v1/_/leases", "")
	c.want(empty, `200 {"events":null,"snapshot":[],"cursor":"N"}`)

	// The config leaves one subnet free, so the test knows which the client gets.
	d.Put(t, "config", `{"Network":"10.5.0.0/16","SubnetMax":"10.5.1.0"}`, 0)
	eventually(t, "the config", func() bool { return strings.Contains(c.ask("GET", "/v1/_/config", ""), `"10.5.1.0"}`) })
	c.want(c.ask("POST", "/v1/_/leases", `{"PublicIP":"192.168.64.1","BackendType":"host-gw"}`), "200 "+lease1)
	c.want(c.ask("POST", "/v1/_/leases", `{"PublicIP":"192.168.64.1","BackendType":"host-gw"}`), "200 "+lease1)
	full := c.ask("POST", "/v1/_/leases", attrs2)
	if !strings.HasPrefix(full, "500 ") {
		t.Errorf("a second client got %s", full)
	}

	event := c.ask("GET", "/v1/_/leases?next="+c.cursorOf(empty), "")
	c.want(event, `200 {"events":[{"type":"added","lease":`+lease1+`}],"snapshot":null,"cursor":"N"}`)
	one := c.ask("GET", "/v1/_/leases/10.5.1.0-24", "")
	c.want(one, `200 {"events":null,"snapshot":[`+lease1+`],"cursor":"N"}`)
	renewed := `{"Subnet":"10.5.1.0/24","Attrs":` + attrs1 + `,"Expiration":"2020-01-01T00:00:00Z"}`
	c.want(c.ask("PUT", "/v1/_/leases/10.5.1.0-24", renewed), "200 "+lease1)
	c.want(c.ask("GET", "/v1/_/reservations", ""), `200 []`)
	c.want(c.ask("POST", "/v1/_/reservations", `{"Subnet":"10.5.1.0/24","PublicIP":"192.168.64.1"}`), "200 ")
	c.want(c.ask("GET", "/v1/_/leases/10.5.1.0-24?next="+c.cursorOf(one), ""),
		`200 {"events":[{"type":"added","lease":`+reserved1+`}],"snapshot":null,"cursor":"N"}`)
	c.want(c.ask("GET", "/v1/_/reservations", ""), `200 [{"Subnet":"10.5.1.0/24","PublicIP":"192.168.64.1"}]`)
	if r, _ := d.Get(t, "subnets/10.5.1.0-24"); r.TTL {
		t.Error("a reservation has a TTL")
	}
	c.want(c.ask("DELETE", "/v1/_/reservations/10.5.1.0-24", ""), "200 ")
	eventually(t, "the end of the reservation", func() bool {
		return c.ask("GET", "/v1/_/reservations", "") == "200 []"
	})
	if r, _ := d.Get(t, "subnets/10.5.1.0-24"); !r.TTL {
		t.Error("a former reservation has no TTL")
	}
	now := c.cursorOf(c.ask("GET", "/v1/_/leases", ""))
	c.want(c.ask("DELETE", "/v1/_/leases/10.5.1.0-24", ""), "200 ")
	c.want(c.ask("GET", "/v1/_/leases?next="+now, ""),
		`200 {"events":[{"type":"removed","lease":`+lease1+`}],"snapshot":null,"cursor":"N"}`)
}

// TestOldClientErrors checks the status of refusals, which are plain text.
func TestOldClientErrors(t *testing.T) {
	c, d := newOldClient(t)
	d.Put(t, "config", oldConfig, 0)
	d.Put(t, "subnets/10.5.7.0-24", attrs2, time.Hour)
	eventually(t, "the lease", func() bool {
		return strings.HasPrefix(c.ask("GET", "/v1/_/leases/10.5.7.0-24", ""), "200")
	})
	for _, r := range []struct{ method, path, body, status string }{
		{"POST", "/v1/_/leases", "garbage", "400"},
		{"POST", "/v1/_/leases", `{"PublicIP":"not an address"}`, "400"},
		{"POST", "/v1/_/leases", strings.Repeat(" ", 200<<10) + attrs1, "400"},
		{"PUT", "/v1/_/leases/10.5.7.0-24", "garbage", "400"},
		{"PUT", "/v1/_/leases/10.5.7.0-24", `{"Subnet":"10.5.7.0/33","Attrs":` + attrs1 + `}`, "400"},
		{"GET", "/v1/_/leases/garbage", "", "400"},
		{"GET", "/v1/_/leases?next=x", "", "400"},
		{"DELETE", "/v1/_/leases/garbage", "", "400"},
		{"POST", "/v1/_/reservations", `{"Subnet":"fd00::/64","PublicIP":"1.2.3.4"}`, "400"},
		// Another node's lease, no lease, subnets that do not fit.
		{"PUT", "/v1/_/leases/10.5.7.0-24", `{"Subnet":"10.5.7.0/24","Attrs":` + attrs1 + `}`, "500"},
		{"PUT", "/v1/_/leases/10.5.8.0-24", `{"Subnet":"10.5.8.0/24","Attrs":` + attrs1 + `}`, "500"},
		{"DELETE", "/v1/_/leases/10.5.8.0-24", "", "500"},
		{"POST", "/v1/_/reservations", `{"Subnet":"10.5.7.0/24","PublicIP":"192.168.64.1"}`, "500"},
		{"POST", "/v1/_/reservations", `{"Subnet":"10.5.8.0/25","PublicIP":"192.168.64.1"}`, "500"},
		{"POST", "/v1/_/reservations", `{"Subnet":"10.6.8.0/24","PublicIP":"192.168.64.1"}`, "500"},
		{"DELETE", "/v1/_/reservations/10.5.7.0-24", "", "500"},
		{"GET", "/v1/blue/leases", "", "500"},
	} {
		if got := c.ask(r.method, r.path, r.body); got[:3] != r.status || strings.TrimSpace(got[3:]) == "" {
			t.Errorf("%s %s %.60s: %s, want %s and a reason", r.method, r.path, r.body, got, r.status)
		}
	}
	if r, _ := d.Get(t, "subnets/10.5.7.0-24"); r.Value != attrs2 || !r.TTL {
		t.Errorf("a refused request changed the record to %+v", r)
	}
}

// TestOldCursors checks that a cursor that is too old, or that the server has never
// seen, gives a snapshot.
func TestOldCursors(t *testing.T) {
	d := newPrefix(startEtcd(t))
	d.Put(t, "config", oldConfig, 0)
	d.Put(t, "subnets/10.5.1.0-24", attrs1, 0)
	c := d.oldClient(t) // its server never sees the datastore as it was at revision 1
	eventually(t, "the lease", func() bool { return strings.Contains(c.ask("GET", "/v1/_/leases", ""), "10.5.1.0") })
	snapshot := `200 {"events":null,"snapshot":[` + reserved1 + `],"cursor":"N"}`
	c.want(c.ask("GET", "/v1/_/leases?next=1", ""), snapshot)
	c.want(c.ask("GET", "/v1/_/leases?next=9000000", ""), snapshot) // of a datastore before it was wiped
}

// TestOldNetworks checks that an old client can watch the names of networks, and read one of them.
func TestOldNetworks(t *testing.T) {
	d := newPrefix(startEtcd(t))
	root, err := d.open("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Close)
	d.Put(t, "config", oldConfig, 0)
	d.Put(t, "blue/config", `{"Network":"10.6.0.0/16"}`, 0)
	d.Put(t, "green/subnets/10.7.1.0-24", attrs1, 0) // records without a config are no network
	d.Put(t, "blue/subnets/10.6.1.0-24", attrs1, 0)
	addr := d.serve(t, server.Options{Networks: root.Networks()}, nil).addr
	c := oldClient{t, "http://" + addr, http.DefaultClient}
	eventually(t, "the networks", func() bool { return strings.HasPrefix(c.ask("GET", "/v1/", ""), "200") })
	names := c.ask("GET", "/v1/", "")
	c.want(names, `200 {"events":null,"snapshot":["blue"],"cursor":"N"}`)
	eventually(t, "blue", func() bool { return strings.HasPrefix(c.ask("GET", "/v1/blue/leases", ""), "200") })
	c.want(c.ask("GET", "/v1/blue/leases", ""), `200 {"events":null,"snapshot":[`+
		strings.ReplaceAll(reserved1, "10.5.1.0", "10.6.1.0")+`],"cursor":"N"}`)
	d.Put(t, "green/config", `{"Network":"10.7.0.0/16"}`, 0)
	event := c.ask("GET", "/v1/?next="+c.cursorOf(names), "")
	c.want(event, `200 {"events":[{"type":"added","lease":`+noLease+`,"network":"green"}],"snapshot":null,"cursor":"N"}`)
	d.Delete(t, "blue/config")
	c.want(c.ask("GET", "/v1/?next="+c.cursorOf(event), ""),
		`200 {"events":[{"type":"removed","lease":`+noLease+`,"network":"blue"}],"snapshot":null,"cursor":"N"}`)
	eventually(t, "the end of blue", func() bool { return strings.HasPrefix(c.ask("GET", "/v1/blue/leases", ""), "500") })
}
