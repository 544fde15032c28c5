package flannelctl

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/etcd/embedded"
)

// drawn returns the JSON of a value with random content.
func drawn[T any](t *testing.T) string {
	t.Helper()
	var v T
	fill(rand.New(rand.NewPCG(3, 4)), reflect.ValueOf(&v).Elem())
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOutputsFitTheirSchemas runs each command with -o json, and checks what it prints. The datastore is a
// real etcd, and the daemon answers what a daemon may.
func TestOutputsFitTheirSchemas(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("cleanup, ping and trace need the rights of root")
	}
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	subnetFile := fakeDaemon(t, map[string]string{
		control.StatusPage: drawn[node.Status](t), control.PeersPage: drawn[control.Peers](t),
		control.DiffPage: drawn[control.Diff](t), control.EventsPage: drawn[control.Events](t),
	})
	dir := t.TempDir()
	daemon := " --subnet-file " + subnetFile
	etcd := " --etcd-endpoints " + strings.Join(server.Endpoints(), ",") + " --etcd-prefix /net"
	config := write(t, `{"Network":"10.5.0.0/22","Backend":{"Type":"vxlan"}}`)
	odd := write(t, `{"Network":"10.5.0.0/22","SubnetMax":"10.5.1.0","Backend":{"Type":"vxlan","Portt":1}}`)
	ran := map[string]bool{}
	for _, c := range []struct{ command, flags string }{
		{"check", " --config " + config + daemon},
		{"cleanup", " --dry-run --state-file " + filepath.Join(dir, "state") +
			" --subnet-file " + filepath.Join(dir, "none")},
		{"config set", " " + config + etcd},
		{"config get", etcd},
		{"change", etcd},
		{"config validate", " " + odd},
		{"leases reserve", " 10.5.2.0/24 --owner 192.168.64.2" + etcd},
		{"config validate", " " + odd + " --compare" + etcd},
		{"leases list", etcd},
		{"leases show", " 10.5.1.0/24" + etcd},
		{"leases unreserve", " 10.5.2.0/24" + etcd},
		{"leases show", " 10.5.2.0/24" + etcd},
		{"leases release", " 10.5.2.0/24 --owner 192.168.64.2" + etcd},
		{"migrate etcd-v2", " --from " + oldEtcd(t).URL + " --prefix /old" + etcd},
		{"status", daemon},
		{"peers", daemon},
		{"diff", daemon},
		{"mesh", daemon},
		{"version", daemon},
		{"report", " -f " + filepath.Join(dir, "page.html") + daemon},
		{"dump", " -f " + filepath.Join(dir, "dump.tar.gz") + daemon},
		{"ping", " 127.0.0.1 --count 1" + daemon},
		{"trace", " 127.0.0.1 127.0.0.1" + daemon},
		{"trace", " 127.0.0.1 127.0.0.1 --via false" + daemon},
		{"schema", ""},
	} {
		ran[c.command] = true
		t.Run(c.command+c.flags, func(t *testing.T) {
			status, stdout, stderr := call(arguments(c.command + c.flags + " -o json")...)
			if status > statusTrouble || stdout == "" {
				t.Fatalf("status %d: %s", status, stderr)
			}
			fits(t, strict(t, c.command), []byte(stdout))
		})
	}
	if d := cmp.Diff(slices.Sorted(maps.Keys(results)), slices.Sorted(maps.Keys(ran))); d != "" {
		t.Errorf("commands (-with a schema +run):\n%s", d)
	}
}
