package flannelctl

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/drivers/etcd/embedded"
)

// oldEtcd serves one answer of the API v2 to readers, and fails the test if it is
// asked to change something.
func oldEtcd(t *testing.T) *httptest.Server {
	const config = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`
	leaf := func(subnet, ip, more string) string {
		return fmt.Sprintf(`{"key":"/old/subnets/%s","value":"{\"PublicIP\":\"%s\"}"%s}`, subnet, ip, more)
	}
	quoted, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	answer := fmt.Sprintf(`{"action":"get","node":{"key":"/old","dir":true,"nodes":[{"key":"/old/config","value":%s},
		{"key":"/old/subnets","dir":true,"nodes":[%s,%s]}]}}`, quoted,
		leaf("10.5.1.0-24", "192.168.64.1", `,"expiration":"2030-01-01T00:00:00Z","ttl":3600`),
		leaf("10.5.2.0-24", "192.168.64.2", ""))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.String() != "/v2/keys/old?recursive=true&quorum=true" {
			t.Errorf("asked the old store to %s %s", r.Method, r.URL)
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	return server
}

// The records of an old store arrive in a real etcd with the TTL that is left, and
// reservations without. A second run finds them, and creates what is missing again.
func TestMigrate(t *testing.T) {
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	old, client := oldEtcd(t), server.Client()
	args := []string{"migrate", "etcd-v2", "--from", old.URL, "--prefix", "/old"}
	common := []string{"--etcd-endpoints", strings.Join(server.Endpoints(), ","), "--etcd-prefix", "/net"}
	keys := func() int {
		resp, err := client.Get(t.Context(), "/net/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return int(resp.Count)
	}
	ttl := func(subnet string) int64 {
		resp, err := client.Get(t.Context(), "/net/subnets/"+subnet)
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatalf("%s: %v, %v", subnet, resp, err)
		}
		if resp.Kvs[0].Lease == 0 {
			return 0
		}
		left, err := client.TimeToLive(t.Context(), clientv3.LeaseID(resp.Kvs[0].Lease))
		if err != nil {
			t.Fatal(err)
		}
		return left.GrantedTTL
	}

	runSteps(t, common, []step{
		{append(args, "--dry-run"), statusOK, "3 to create", ""},
	})
	if n := keys(); n != 0 {
		t.Fatalf("a dry run has written %d keys", n)
	}
	runSteps(t, common, []step{
		{args, statusOK, "3 created", ""},
		{args, statusOK, "3 same", ""},
		{[]string{"leases", "list"}, statusOK, "1 leased, 1 reserved", ""},
	})
	if got := ttl("10.5.1.0-24"); got < 3500 || got > 3600 {
		t.Errorf("the lease got a TTL of %d s", got)
	}
	if got := ttl("10.5.2.0-24"); got != 0 {
		t.Errorf("the reservation got a TTL of %d s", got)
	}
	if _, err := client.Delete(t.Context(), "/net/subnets/10.5.1.0-24"); err != nil {
		t.Fatal(err)
	}
	foreign := `{"PublicIP":"192.168.64.9","PublicIPv6":null}`
	if _, err := client.Put(t.Context(), "/net/subnets/10.5.2.0-24", foreign); err != nil {
		t.Fatal(err)
	}
	runSteps(t, common, []step{{args, statusTrouble, "1 created, 1 same, 1 differs", ""}})
	resp, err := client.Get(t.Context(), "/net/subnets/10.5.2.0-24")
	if err != nil || string(resp.Kvs[0].Value) != foreign {
		t.Errorf("the foreign record is now %v, %v", resp, err)
	}
	runSteps(t, common, []step{
		{[]string{"migrate", "etcd-v2"}, statusUsage, "", "--from names the old etcd"},
		{[]string{"migrate", "etcd-v2", "--from", "nothing"}, statusTrouble, "", "--from: want the URL of an etcd"},
	})
}
