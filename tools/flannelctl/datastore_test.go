package flannelctl

import (
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/drivers/etcd/embedded"
	"github.com/flanneld/flannel/drivers/kube/kubetest"
	"github.com/flanneld/flannel/drivers/remote/server"
	"github.com/flanneld/flannel/internal/daemonflags"
)

// step is one call of flannelctl, with parts of its output.
type step struct {
	args           []string
	status         int
	stdout, stderr string
}

func runSteps(t *testing.T, common []string, steps []step) {
	t.Helper()
	for _, s := range steps {
		status, stdout, stderr := call(append(s.args, common...)...)
		ok := status == s.status && strings.Contains(stdout, s.stdout) && strings.Contains(stderr, s.stderr)
		if !ok || s.stderr == "" && stderr != "" {
			t.Fatalf("%s: status %d, want %d; printed\n%s\nerrors\n%s",
				strings.Join(s.args, " "), status, s.status, stdout, stderr)
		}
	}
}

// write makes a file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "net-conf.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEtcd(t *testing.T) {
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	good := write(t, `{"Network":"10.5.0.0/22","Backend":{"Type":"vxlan"}}`)
	bad := write(t, `{"Network":"10.5.0.0/22","Backend":{"Type":"pigeon"}}`)
	small := write(t, `{"Network":"10.5.0.0/22","SubnetMax":"10.5.1.0","Backend":{"Type":"vxlan"}}`)
	put := func(key, value string) {
		if _, err := server.Client().Put(t.Context(), "/net/subnets/"+key, value); err != nil {
			t.Fatal(err)
		}
	}
	common := []string{"--etcd-endpoints", strings.Join(server.Endpoints(), ","), "--etcd-prefix", "/net"}
	runSteps(t, common, []step{
		{[]string{"config", "get"}, 1, "", "the datastore holds no network config at /net/config"},
		{[]string{"config", "set", bad}, 1, `unknown backend type "pigeon"`, ""},
		{[]string{"config", "set", good}, 0, "stored:", ""},
		{[]string{"config", "get"}, 0, `{"Network":"10.5.0.0/22","Backend":{"Type":"vxlan"}}`, ""},
		{[]string{"config", "get", "-o", "json"}, 0, `"Network": "10.5.0.0/22"`, ""},
		{[]string{"leases", "list"}, 0, "no records, 3 free of 3 (IPv4)", ""},
		{[]string{"leases", "show", "10.5.1.0/24"}, 0, "free", ""},
		{[]string{"leases", "reserve", "10.5.2.0/24"}, 1, "", "name its future owner with --owner"},
		{[]string{"leases", "reserve", "10.5.2.0/24", "--owner", "192.168.64.2"}, 0, "reserved 10.5.2.0-24", ""},
		{[]string{"leases", "reserve", "10.5.2.0/24", "--owner", "nobody"}, 2, "", "--owner"},
		{[]string{"leases", "show", "nonsense"}, 2, "", "not a subnet"},
		{[]string{"leases", "list"}, 0, "1 reserved, 2 free of 3 (IPv4)", ""},
		{[]string{"config", "validate", small, "--compare"}, 1, "192.168.64.2 has to take another subnet", ""},
		{[]string{"config", "validate", small}, 0, "1 subnets of /24", ""},
		{[]string{"leases", "unreserve", "10.5.2.0/24"}, 0, "unreserved", ""},
		{[]string{"leases", "show", "10.5.2.0/24"}, 0, "expires:", ""},
		{[]string{"leases", "release", "10.5.2.0/24"}, 1, "", "name the owner"},
		{[]string{"leases", "release", "10.5.2.0/24", "--owner", "192.168.64.3"}, 1, "", "is 192.168.64.2, not 192.168.64.3"},
		{[]string{"leases", "release", "10.5.2.0/24", "--owner", "192.168.64.2"}, 0, "released", ""},
		{[]string{"leases", "list", "-o", "json"}, 0, `"Free": "3"`, ""},
	})
	const hostile = "\x1b]0;title\a{\"Network\":\"10.5.0.0/22\"}"
	if _, err := server.Client().Put(t.Context(), "/net/config", hostile); err != nil {
		t.Fatal(err)
	}
	get := append([]string{"config", "get"}, common...)
	const shown = `\x1b]0;title\a{"Network":"10.5.0.0/22"}` + "\n"
	if _, stdout, _ := callAt(80, get...); stdout != shown {
		t.Errorf("on a terminal: %q, want %q", stdout, shown)
	}
	if _, stdout, _ := call(get...); stdout != hostile {
		t.Errorf("into a file: %q, want %q", stdout, hostile)
	}
	if _, err := server.Client().Put(t.Context(), "/net/config", `{"Network":"10.5.0.0/22"}`); err != nil {
		t.Fatal(err)
	}
	put("10.5.3.0-24", "nonsense")
	runSteps(t, common, []step{{[]string{"leases", "list"}, 1, "quarantined", ""}})
}

// A change of the backend ends when all nodes have followed, or by force. The config that begins it names the previous
// backend by itself.
func TestChange(t *testing.T) {
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	put := func(record string) {
		if _, err := server.Client().Put(t.Context(), "/net/subnets/10.5.1.0-24", record); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"PublicIP":"192.168.64.1","PublicIPv6":null,"BackendType":"vxlan",` +
		`"BackendData":{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}}`)
	before := write(t, `{"Network":"10.5.0.0/22","Backend":{"Type":"vxlan"}}`)
	after := write(t, `{"Network":"10.5.0.0/22","Backend":{"Type":"host-gw"}}`)
	common := []string{"--etcd-endpoints", strings.Join(server.Endpoints(), ","), "--etcd-prefix", "/net"}
	runSteps(t, common, []step{
		{[]string{"change"}, 1, "", "the datastore holds no network config at /net/config"},
		{[]string{"config", "set", before}, 0, "stored:", ""},
		{[]string{"change"}, 0, "1 of 1 nodes", ""},
		{[]string{"config", "set", after}, 0, "Formerly: not given becomes [vxlan]", ""},
		{[]string{"config", "get"}, 0, `"Formerly":[{"Type":"vxlan"}]`, ""},
		{[]string{"change"}, 1, "10.5.1.0-24 of 192.168.64.1 offers", ""},
		{[]string{"change", "--wait", "--wait-for", "0s"}, 1, "0 of 1 nodes", ""},
		{[]string{"change", "--end"}, 1, "0 of 1 nodes", "have not followed: 10.5.1.0-24 (192.168.64.1)"},
		{[]string{"config", "get"}, 0, `"Formerly":[{"Type":"vxlan"}]`, ""},
	})
	put(`{"PublicIP":"192.168.64.1","PublicIPv6":null,"BackendType":"host-gw"}`)
	runSteps(t, common, []step{
		{[]string{"change", "--wait", "--end"}, 0, "ended:", ""},
		{[]string{"config", "get"}, 0, `"Formerly":[]`, ""},
		{[]string{"change", "--end"}, 0, "before: the config names no previous backend", ""},
		{[]string{"config", "set", before}, 0, "Formerly: [] becomes [host-gw]", ""},
		{[]string{"change", "--end", "--force"}, 0, "ended:", ""},
	})
}

// Each named network has its own config and records, which servers show as well.
func TestNetworksAndServers(t *testing.T) {
	started, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer started.Close()
	open := func(network string) (*etcd.Store, error) {
		return etcd.Open(t.Context(), etcd.Options{Endpoints: started.Endpoints(), Prefix: path.Join("/net", network)})
	}
	good := write(t, `{"Network":"10.6.0.0/22","Backend":{"Type":"vxlan"}}`)
	direct := []string{"--etcd-endpoints", strings.Join(started.Endpoints(), ","), "--etcd-prefix", "/net", "--network"}
	runSteps(t, append(direct, "blue"), []step{
		{[]string{"config", "get"}, 1, "", "the datastore holds no network config at /net/blue/config"},
		{[]string{"config", "set", good}, 0, "stored:", ""},
		{[]string{"leases", "reserve", "10.6.2.0/24", "--owner", "192.168.64.2"}, 0, "reserved 10.6.2.0-24", ""},
	})
	runSteps(t, append(direct, "green"), []step{{[]string{"config", "get"}, 1, "", "/net/green/config"}})
	runSteps(t, append(direct, "config"), []step{{[]string{"leases", "list"}, 2, "", "it is reserved"}})

	root, err := open("")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s, err := server.New(t.Context(), server.Options{
		Open: func(network string) (server.Store, error) { return open(network) }, Networks: root.Networks(),
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, nil) }()
	defer func() {
		if err := errors.Join(s.Close(), <-served); err != nil {
			t.Error(err)
		}
	}()
	remote := []string{"--remote", l.Addr().String(), "--timeout", "30s", "--network"}
	runSteps(t, append(remote, "blue"), []step{
		{[]string{"config", "get"}, 0, `{"Network":"10.6.0.0/22","Backend":{"Type":"vxlan"}}`, ""},
		{[]string{"leases", "list"}, 0, "1 reserved, 2 free of 3 (IPv4)", ""},
		{[]string{"leases", "show", "10.6.2.0/24"}, 0, "reserved", ""},
		{[]string{"config", "validate", good, "--compare"}, 0, "3 subnets of /24", ""},
		{[]string{"leases", "unreserve", "10.6.2.0/24"}, 1, "", "with --remote flannelctl only reads"},
		{[]string{"config", "set", good}, 1, "", "with --remote flannelctl only reads"},
		{[]string{"leases", "list", "--kube-subnet-mgr"}, 2, "", "excludes --network and --remote"},
	})
	runSteps(t, append(remote, ""), []step{
		{[]string{"config", "get"}, 1, "", "the datastore of the servers holds no config of this network"},
	})
}

// A writer of commands learns that nodes refuse them from a datastore that asks for no credential.
func TestSetCommands(t *testing.T) {
	dir := t.TempDir()
	socket, err := embedded.SocketURL(dir)
	if err != nil {
		t.Fatal(err)
	}
	server, err := embedded.Start(t.Context(), embedded.Options{
		Dir: dir, ListenClient: []string{socket, "http://127.0.0.1:0"}, UnsafeNoSync: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conf := write(t, `{"Network":"10.5.0.0/22","Backend":{"Type":"extension","SubnetAddCommand":"true"}}`)
	plain := write(t, `{"Network":"10.5.0.0/22","Backend":{"Type":"alloc"},"Formerly":[]}`)
	const says = "keep the former config: network config: Backend extension is refused: it runs commands as root"
	for _, endpoint := range server.Endpoints() {
		want := says
		if strings.HasPrefix(endpoint, "unix:") {
			want = ""
		}
		runSteps(t, []string{"--etcd-endpoints", endpoint, "--etcd-prefix", "/" + endpoint[:4]}, []step{
			{[]string{"config", "set", plain}, 0, "stored:", ""},
			{[]string{"config", "set", conf}, 0, "stored:", want},
		})
	}
}

// Without a flag, flannelctl uses the etcd of a flanneld on this host.
func TestFindsEmbeddedEtcd(t *testing.T) {
	dir := t.TempDir()
	d := &datastore{etcd: daemonflags.Etcd{Endpoints: daemonflags.EtcdEndpoints}, embedded: dir, timeout: time.Minute}
	expect := func(when string, want []string) {
		t.Helper()
		if got, denied := d.endpoints(); denied != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", when, got, denied, want)
		}
	}
	byDefault := strings.Split(daemonflags.EtcdEndpoints, ",")
	expect("without a socket", byDefault)
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: dir, UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	expect("with a socket", server.Endpoints())
	snap, store, err := d.snapshot(t.Context())
	if err != nil || snap.Config.Revision != 0 {
		t.Fatalf("snapshot %+v, %v", snap, err)
	}
	store.Close()
	d.etcd.Endpoints = "http://192.0.2.1:2379"
	expect("with a flag", []string{"http://192.0.2.1:2379"})
	d.etcd.Endpoints = daemonflags.EtcdEndpoints
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "client.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect("with a file that no server has", byDefault)
}

// A user who may not use the socket of the embedded etcd reads that root may.
func TestEmbeddedEtcdIsForRoot(t *testing.T) {
	dir := t.TempDir()
	d := &datastore{etcd: daemonflags.Etcd{Endpoints: daemonflags.EtcdEndpoints}, embedded: dir + "/etcd"}
	if err := os.Mkdir(d.embedded, 0); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		was, _ := unix.SetfsuidRetUid(65534)
		defer unix.SetfsuidRetUid(was)
	}
	want := "only root may use the etcd of flanneld --embed-etcd, at " + dir + "/etcd/client.sock: if this host has " +
		"one, run flannelctl as root"
	if _, denied := d.endpoints(); denied == nil || denied.Error() != want {
		t.Errorf("%v, want %s", denied, want)
	}
}

func TestUnreachableEtcd(t *testing.T) {
	t.Setenv("FLANNELD_ETCD_ENDPOINTS", "http://127.0.0.1:1")
	t.Setenv("FLANNELD_ETCD_USERNAME", "root")
	t.Setenv("FLANNELD_ETCD_PASSWORD", "s3cret")
	status, stdout, stderr := call("leases", "list", "--timeout", "2s")
	tells := strings.Contains(stderr, "read etcd at http://127.0.0.1:1: ") && strings.Contains(stderr, "refused")
	if status != 1 || !tells {
		t.Errorf("status %d, errors %s", status, stderr)
	}
	_, help, _ := call("leases", "list", "--help")
	if all := stdout + stderr + help; strings.Contains(all, "s3cret") {
		t.Errorf("the output shows the password:\n%s", all)
	}
}

// A variable that does not parse is named once, by the commands that read it.
func TestEnvironmentThatDoesNotParse(t *testing.T) {
	t.Setenv("FLANNELD_KUBE_SUBNET_MGR", "perhaps")
	conf := write(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	for args, want := range map[string]int{"version": 0, "config validate " + conf: 1} {
		_, _, stderr := call(arguments(args)...)
		if got := strings.Count(stderr, "FLANNELD_KUBE_SUBNET_MGR is ignored"); got != want {
			t.Errorf("%s names the variable %d times, want %d:\n%s", args, got, want, stderr)
		}
	}
}

func TestKubernetes(t *testing.T) {
	api := kubetest.New()
	server := httptest.NewServer(api)
	defer server.Close()
	node := &corev1.Node{Spec: corev1.NodeSpec{PodCIDR: "10.5.1.0/24", PodCIDRs: []string{"10.5.1.0/24"}}}
	node.Name, node.UID = "n1", "1"
	node.Annotations = map[string]string{
		"flannel.alpha.coreos.com/kube-subnet-manager": "true", "flannel.alpha.coreos.com/backend-type": "vxlan",
		"flannel.alpha.coreos.com/public-ip":    "192.168.64.1",
		"flannel.alpha.coreos.com/backend-data": `{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}`,
	}
	api.Put(node)
	conf := write(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	common := []string{"--kube-subnet-mgr", "--kube-api-url", server.URL, "--net-config-path", conf}
	runSteps(t, common, []step{
		{[]string{"leases", "list"}, 0, "10.5.1.0-24  assigned  192.168.64.1  vxlan", ""},
		{[]string{"leases", "show", "10.5.1.0/24"}, 0, "assigned", ""},
		{[]string{"leases", "reserve", "10.5.1.0/24"}, 1, "", "Kubernetes assigns the subnets"},
		{[]string{"config", "get"}, 0, `"Network":"10.5.0.0/16"`, ""},
		{[]string{"config", "set", conf}, 1, "", "ConfigMap kube-flannel-cfg"},
	})
}
