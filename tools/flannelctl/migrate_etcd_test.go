package flannelctl

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/drivers/etcd/embedded"
)

// etcdV2Env names the etcd 3.5 that [realEtcdV2] runs.
const etcdV2Env = "FLANNEL_ETCD_V2"

// etcdV2 is a running etcd 3.5 with its API v2.
type etcdV2 struct {
	t    *testing.T
	url  string
	auth *url.Userinfo // of the requests of the test; nil: none
}

// realEtcdV2 starts an etcd with the API v2.
func realEtcdV2(t *testing.T) *etcdV2 {
	t.Helper()
	program := os.Getenv(etcdV2Env)
	if program == "" {
		t.Skip("needs an etcd 3.5, which make test-etcd-v2 builds")
	}
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	clients, peers := "http://"+freeAddress(t), "http://"+freeAddress(t)
	cmd := exec.Command(program, "--enable-v2", "--unsafe-no-fsync", "--data-dir", filepath.Join(dir, "data"),
		"--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("etcd says:\n%s", text)
		}
		_ = log.Close()
	})
	e := &etcdV2{t: t, url: clients}
	for !e.healthy() {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("etcd has ended: %v", err)
		case <-t.Context().Done():
			t.Fatal("etcd does not become healthy")
		case <-time.After(20 * time.Millisecond): // between two questions
		}
	}
	return e
}

// freeAddress returns an address of loopback on which nothing listens. It is unlike the last one, and unlike those of
// clients, one of which could get the port of 127.0.0.1 meanwhile.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (e *etcdV2) healthy() bool {
	resp, err := http.Get(e.url + "/health")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// from returns the URL for --from.
func (e *etcdV2) from() string {
	u, err := url.Parse(e.url)
	if err != nil {
		e.t.Fatal(err)
	}
	u.User = e.auth
	return u.String()
}

// do sends a request that has to succeed, and returns the index of etcd's last change.
func (e *etcdV2) do(method, path, contentType, body string) (index string) {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), method, e.url+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	if e.auth != nil {
		password, _ := e.auth.Password()
		req.SetBasicAuth(e.auth.Username(), password)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		e.t.Fatalf("%s %s: %s", method, path, resp.Status)
	}
	return resp.Header.Get("X-Etcd-Index")
}

// put writes a key below /old as nodes up to v0.17 did; more are further fields.
func (e *etcdV2) put(key, value string, more ...string) {
	e.t.Helper()
	form := url.Values{"value": {value}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	e.do(http.MethodPut, "/v2/keys/old/"+key, "application/x-www-form-urlencoded", form.Encode())
}

// lease writes the record of a node as v0.14 did. A TTL of "" makes a reservation.
func (e *etcdV2) lease(subnet, ip, ttl string) {
	e.t.Helper()
	value := fmt.Sprintf(`{"PublicIP":"%s","BackendType":"vxlan","BackendData":{"VtepMAC":"c2:be:aa:00:00:01"}}`, ip)
	if ttl == "" {
		e.put("subnets/"+subnet, value)
		return
	}
	e.put("subnets/"+subnet, value, "ttl", ttl)
}

// index returns the index of etcd's last change.
func (e *etcdV2) index() string {
	e.t.Helper()
	return e.do(http.MethodGet, "/v2/keys/", "", "")
}

// fill writes a network as old nodes leave it, with what is none of its records.
func (e *etcdV2) fill() {
	e.t.Helper()
	e.put("config", `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	e.put("blue/config", `{"Network":"10.6.0.0/16"}`)
	e.put("blue/subnets/10.6.1.0-24", `{"PublicIP":"192.168.64.6"}`, "ttl", "3600")
	e.put("_hidden", "x")
	e.lease("10.5.1.0-24", "192.168.64.1", "3600")
	e.lease("10.5.2.0-24", "192.168.64.2", "120")
	e.lease("10.5.3.0-24", "192.168.64.3", "")
	e.put("subnets/10.5.4.0-24", "no JSON", "ttl", "3600")
}

// newStore is an etcd of today.
type newStore struct {
	t      *testing.T
	client *clientv3.Client
	flags  []string
}

func newStoreAt(t *testing.T, endpoints []string) *newStore {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	flags := []string{"--etcd-endpoints", strings.Join(endpoints, ","), "--etcd-prefix", "/net"}
	return &newStore{t: t, client: client, flags: flags}
}

func embeddedStore(t *testing.T) *newStore {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return newStoreAt(t, server.Endpoints())
}

// keys returns all keys below the prefix.
func (n *newStore) keys() map[string]string {
	n.t.Helper()
	resp, err := n.client.Get(n.t.Context(), "/net/", clientv3.WithPrefix())
	if err != nil {
		n.t.Fatal(err)
	}
	found := map[string]string{}
	for _, kv := range resp.Kvs {
		found[strings.TrimPrefix(string(kv.Key), "/net/")] = string(kv.Value)
	}
	return found
}

// ttl returns the TTL that a record was written with, 0 for a reservation.
func (n *newStore) ttl(subnet string) int64 {
	n.t.Helper()
	resp, err := n.client.Get(n.t.Context(), "/net/subnets/"+subnet)
	if err != nil || len(resp.Kvs) != 1 {
		n.t.Fatalf("%s: %v, %v", subnet, resp, err)
	}
	if resp.Kvs[0].Lease == 0 {
		return 0
	}
	left, err := n.client.TimeToLive(n.t.Context(), clientv3.LeaseID(resp.Kvs[0].Lease))
	if err != nil {
		n.t.Fatal(err)
	}
	return left.GrantedTTL
}

// The records of a real etcd 3.5 arrive in another etcd, or in the API v3 of the same one,
// with the TTLs that are left. Old nodes live on meanwhile, and each further run copies
// what they have written since. No run writes to the API v2.
func TestMigrateFromRealEtcd(t *testing.T) {
	for name, into := range map[string]func(*testing.T, *etcdV2) *newStore{
		"another etcd": func(t *testing.T, _ *etcdV2) *newStore { return embeddedStore(t) },
		"the same":     func(t *testing.T, old *etcdV2) *newStore { return newStoreAt(t, []string{old.url}) },
	} {
		t.Run(name, func(t *testing.T) {
			old := realEtcdV2(t)
			old.fill()
			now := into(t, old)
			args := []string{"migrate", "etcd-v2", "--from", old.from(), "--prefix", "/old"}
			before := old.index()

			runSteps(t, now.flags, []step{{append(args, "--dry-run"), statusTrouble, "4 to create, 1 invalid", ""}})
			if found := now.keys(); len(found) != 0 {
				t.Fatalf("a dry run has written %v", found)
			}
			runSteps(t, now.flags, []step{
				{args, statusTrouble, "4 created, 1 invalid", ""},
				{args, statusTrouble, "4 same, 1 invalid", ""},
			})
			if after := old.index(); after != before {
				t.Errorf("the old store went from index %s to %s", before, after)
			}
			now.checkFilled(t)

			old.lease("10.5.1.0-24", "192.168.64.1", "86400") // it renews
			old.lease("10.5.7.0-24", "192.168.64.7", "86400") // it joins
			old.lease("10.5.2.0-24", "192.168.64.9", "86400") // the subnet has another owner now
			old.do(http.MethodDelete, "/v2/keys/old/subnets/10.5.3.0-24", "", "")
			runSteps(t, now.flags, []step{{args, statusTrouble,
				"1 created, 2 same, 1 only new, 1 differs, 1 invalid", ""}})
			if got := now.ttl("10.5.7.0-24"); got < 86000 || got > 86400 {
				t.Errorf("the new node's record has a TTL of %d s", got)
			}
		})
	}
}

// checkFilled compares the store with what fill wrote.
func (n *newStore) checkFilled(t *testing.T) {
	t.Helper()
	found := n.keys()
	if len(found) != 4 || found["config"] != `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}` {
		t.Errorf("the new store has %v", found)
	}
	var attrs struct {
		PublicIP    string
		BackendData struct{ VtepMAC string }
	}
	if err := json.Unmarshal([]byte(found["subnets/10.5.1.0-24"]), &attrs); err != nil ||
		attrs.PublicIP != "192.168.64.1" || attrs.BackendData.VtepMAC != "c2:be:aa:00:00:01" {
		t.Errorf("the record of a node is now %s: %v", found["subnets/10.5.1.0-24"], err)
	}
	for subnet, most := range map[string]int64{"10.5.1.0-24": 3600, "10.5.2.0-24": 120, "10.5.3.0-24": 0} {
		if got := n.ttl(subnet); got > most || got < most-100 {
			t.Errorf("%s has a TTL of %d s, want at most %d", subnet, got, most)
		}
	}
}

// A run that is killed half-way through leaves what it has written, and the next one
// writes the rest.
func TestMigrationResumes(t *testing.T) {
	tool := os.Getenv("FLANNEL_LAB_TOOL")
	old, now := realEtcdV2(t), embeddedStore(t)
	const nodes = 400
	old.put("config", `{"Network":"10.4.0.0/15","Backend":{"Type":"vxlan"}}`)
	for i := range nodes {
		old.lease(fmt.Sprintf("10.%d.%d.0-24", 4+i/200, i%200+1), fmt.Sprintf("192.168.%d.%d", i/200, i%200+1), "3600")
	}
	args := append([]string{"migrate", "etcd-v2", "--from", old.from(), "--prefix", "/old"}, now.flags...)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch := now.client.Watch(ctx, "/net/subnets/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-watch
	cmd := exec.CommandContext(ctx, tool, args...) // killed with SIGKILL
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-watch // the first record
	cancel()
	_ = cmd.Wait()
	half := len(now.keys())
	if half < 2 || half > nodes {
		t.Fatalf("%d keys when the run was killed", half)
	}
	runSteps(t, nil, []step{
		{args, statusOK, fmt.Sprintf("%d created, %d same", nodes+1-half, half), ""},
		{args, statusOK, fmt.Sprintf("%d same", nodes+1), ""},
	})
}

// An etcd that demands a user and a password gets them from the URL.
func TestMigrateWithPassword(t *testing.T) {
	old, now := realEtcdV2(t), embeddedStore(t)
	old.fill()
	old.do(http.MethodPut, "/v2/auth/users/root", "application/json", `{"user":"root","password":"secret"}`)
	old.do(http.MethodPut, "/v2/auth/enable", "", "")
	old.auth = url.UserPassword("root", "secret")
	old.do(http.MethodPut, "/v2/auth/roles/guest", "application/json",
		`{"role":"guest","revoke":{"kv":{"read":["/*"],"write":["/*"]}}}`)
	args := []string{"migrate", "etcd-v2", "--prefix", "/old", "--from"}
	runSteps(t, now.flags, []step{
		{append(args, old.url), statusTrouble, "", "The request requires user authentication (110)"},
		{append(args, old.from()), statusTrouble, "4 created, 1 invalid", ""},
	})
}
