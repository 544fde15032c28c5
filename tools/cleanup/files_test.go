package cleanup

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/internal/cnicalls"
)

// writeFiles writes files below a root. A text "-> x" makes a symbolic link to x.
func writeFiles(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if target, isLink := strings.CutPrefix(text, "-> "); isLink && err == nil {
			err = os.Symlink(target, path)
		} else if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// calls returns what the CNI plugin counts in a file.
func calls(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "calls")
	err := cnicalls.Count(path, cnicalls.Call{Command: "ADD"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func objects(items []Item) []string {
	var names []string
	for _, i := range items {
		names = append(names, i.Object)
	}
	slices.Sort(names)
	return names
}

const (
	subnetText   = "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"
	keyText      = "kJSHh2QW0vZVRvHFMQXUEo1VhGkVqTUjfDrjPqjmQFE="
	delegateText = `{"name":"cbr0","type":"bridge"}`
)

func TestFiles(t *testing.T) {
	root := t.TempDir()
	writeFiles(t, root, map[string]string{
		"run/flannel/subnet.env":        subnetText,
		"run/flannel/networks/blue.env": "FLANNEL_MTU=1450\n",
		"run/flannel/subnet.env.cni":    string(calls(t)),
		"run/flannel/wgkey":             keyText + "\n",
		"state/s":                       `{"Version":1}`,
		"state/s.commands":              "boot 1\n",
		"state/s.commands.lock":         "",
		"state/wireguard-key.secret":    strings.Repeat("k", 32),
		"state/another.secret":          "of another program",
		"cni/data/.cbr0/1234:eth0":      delegateText,
		"cni/data/.cbr0/.gateways":      `{"cni0":["10.5.72.1/24"]}`,
		"cni/data/1234":                 "-> .cbr0/1234:eth0",
		"cni/data/5678":                 delegateText,
	})
	o := Options{
		Root: root, SubnetFiles: []string{"/run/flannel/subnet.env"}, StateFiles: []string{"/state/s"},
		KeyFiles: []string{"/run/flannel/wgkey"}, CNIData: "/cni/data", CNIConf: "/nonexistent", CNIBin: "/nonexistent",
	}
	_, kept := o.files()
	var result Result
	o.removeFiles(&result)
	if d := cmp.Diff([]string{"/state/another.secret"}, objects(kept)); d != "" {
		t.Errorf("kept (-want +got):\n%s", d)
	}
	want := []string{
		"/cni/data", "/run/flannel", "/run/flannel/networks", "/run/flannel/networks/blue.env", "/run/flannel/subnet.env",
		"/run/flannel/subnet.env.cni", "/run/flannel/wgkey", "/state/s", "/state/s.commands",
		"/state/s.commands.lock", "/state/wireguard-key.secret",
	}
	if d := cmp.Diff(want, objects(result.Items)); d != "" || result.Trouble() {
		t.Errorf("%+v (-want +got):\n%s", result, d)
	}
}

// TestOtherFiles names files and folders of other programs in the flags.
func TestOtherFiles(t *testing.T) {
	root := t.TempDir()
	writeFiles(t, root, map[string]string{
		"etc/passwd":               "root:x:0:0::/root:/bin/bash\n",
		"etc/passwd.commands":      "another record",
		"etc/passwd.commands.lock": "another program's",
		"etc/tls.secret":           "a secret of another program",
		"etc/subnet.env":           subnetText,
		"etc/link.env":             "-> subnet.env",
		"etc/empty":                "",
		"home/user/notes":          "notes",
		"cni/flannel/1234":         delegateText,
		"cni/networks/cbr0/10.5.1": "1234",
	})
	for _, path := range []string{"/etc/passwd", "/etc/link.env", "/etc/empty", "/home", "/etc/passwd.commands",
		"/etc/passwd.commands.lock"} {
		o := Options{
			Root: root, SubnetFiles: []string{path}, StateFiles: []string{path}, KeyFiles: []string{path},
			CNIData: "/cni", CNIConf: "/nonexistent", CNIBin: "/nonexistent",
		}
		ours, kept := o.files()
		if len(ours) > 0 || !slices.Contains(objects(kept), path) || !slices.Contains(objects(kept), "/cni") {
			t.Errorf("%s: would remove %v, keep %v", path, objects(ours), objects(kept))
		}
		o.removeFiles(&Result{})
	}
	for _, name := range []string{
		"etc/link.env", "etc/subnet.env", "etc/empty", "home/user/notes", "cni/networks/cbr0/10.5.1",
	} {
		if _, err := os.Lstat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestRunning finds a daemon that /proc does not show, by its socket.
func TestRunning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subnet.env")
	l, err := net.Listen("unix", path+".sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := Options{SubnetFiles: []string{path}, Daemons: func() ([]int, error) { return nil, nil }}
	ids, err := o.running()
	if err != nil || !slices.Equal(ids, []int{os.Getpid()}) {
		t.Errorf("%v %v, want %d", ids, err, os.Getpid())
	}
	if l.Close() != nil {
		t.Fatal("close")
	}
	if ids, err := o.running(); err != nil || len(ids) > 0 {
		t.Errorf("%v %v after the end", ids, err)
	}
}
