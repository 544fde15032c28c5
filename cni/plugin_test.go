package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/google/go-cmp/cmp"
)

// recorder stands for the delegates: it records their calls.
type recorder struct {
	calls   []string // "bridge ADD {conf}"
	err     error
	missing string // the delegate that is not in CNI_PATH
}

func (r *recorder) ExecPlugin(_ context.Context, plugin string, stdin []byte, env []string) ([]byte, error) {
	command := ""
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "CNI_COMMAND="); ok {
			command = value // the last call counts
		}
	}
	r.calls = append(r.calls, plugin+" "+command+" "+string(stdin))
	return []byte(`{"cniVersion":"1.1.0","ips":[{"address":"10.5.72.2/24"}]}`), r.err
}

func (r *recorder) FindInPath(plugin string, paths []string) (string, error) {
	if plugin == r.missing {
		return "", fmt.Errorf("failed to find plugin %q in path %s", plugin, paths)
	}
	return plugin, nil
}

func (r *recorder) Decode(text []byte) (version.PluginInfo, error) {
	return (&version.PluginDecoder{}).Decode(text)
}

// bench is a plugin with delegates that only take notes.
type bench struct {
	t    *testing.T
	exec *recorder
	dir  string
	conf map[string]any

	container, ifname string // the attachment of the calls
}

func newBench(t *testing.T, subnetEnv string) *bench {
	b := &bench{t: t, exec: &recorder{}, dir: t.TempDir(), container: "c1", ifname: "eth0"}
	b.conf = map[string]any{"cniVersion": "1.1.0", "name": "cbr0", "type": "flannel",
		"subnetFile": filepath.Join(b.dir, "subnet.env"), "dataDir": filepath.Join(b.dir, "data")}
	if subnetEnv != "" {
		if err := os.WriteFile(filepath.Join(b.dir, "subnet.env"), []byte(subnetEnv), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("CNI_PATH", b.dir)
	t.Setenv("CNI_COMMAND", "ADD")
	return b
}

// call gives a command the configuration.
func (b *bench) call(command func(*skel.CmdArgs) error) error {
	b.t.Helper()
	text, err := json.Marshal(b.conf)
	if err != nil {
		b.t.Fatal(err)
	}
	return command(&skel.CmdArgs{ContainerID: b.container, IfName: b.ifname, StdinData: text})
}

func (b *bench) plugin() Plugin { return Plugin{Exec: b.exec} }

// told returns the calls of the delegates so far, and forgets them.
func (b *bench) told() []string {
	calls := b.exec.calls
	b.exec.calls = nil
	return calls
}

const wantBridge = `{"cniVersion":"1.1.0","ipMasq":false,"ipam":{"ranges":[[{"subnet":"10.5.72.0/24"}],` +
	`[{"subnet":"2001:cafe:42::/64"}]],` +
	`"routes":[{"dst":"10.5.0.0/16"},{"dst":"2001:cafe:42::/56"}],"type":"host-local"},"isGateway":true,"mtu":1450,` +
	`"name":"cbr0","type":"bridge"}`

func TestAddKeepsAndDelForgets(t *testing.T) {
	b := newBench(t, both)
	if err := b.call(b.plugin().add); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"bridge ADD " + wantBridge}, b.told()); diff != "" {
		t.Error(diff)
	}
	kept := filepath.Join(b.dir, "data", "c1")
	if text, err := os.ReadFile(kept); err != nil || string(text) != wantBridge {
		t.Errorf("kept %s, %v", text, err)
	}
	if info, err := os.Stat(kept); err != nil || info.Mode() != 0o600 {
		t.Errorf("kept as %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Dir(kept)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("kept in %v, %v", info.Mode(), err)
	}
	// The node has got another subnet since; the container keeps its own.
	if err := os.Remove(filepath.Join(b.dir, "subnet.env")); err != nil {
		t.Fatal(err)
	}
	if err := b.call(b.plugin().check); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time the attachment is unknown
		if err := b.call(b.plugin().del); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"bridge CHECK " + wantBridge, "bridge DEL " + wantBridge}, b.told()); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(kept); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still kept: %v", err)
	}
}

func TestDelegateAndIPAMAreCompleted(t *testing.T) {
	b := newBench(t, strings.Replace(both, "=true", "=false", 1))
	b.conf["delegate"] = map[string]any{"type": "macvlan", "mtu": 900, "master": "eth1"}
	b.conf["ipam"] = map[string]any{"type": "static-ish", "routes": []any{map[string]any{"dst": "0.0.0.0/0"}}}
	b.conf["runtimeConfig"] = map[string]any{"mac": "02:00:00:00:00:01"}
	if err := b.call(b.plugin().add); err != nil {
		t.Fatal(err)
	}
	const want = `macvlan ADD {"cniVersion":"1.1.0","ipMasq":true,"ipam":{"ranges":[[{"subnet":"10.5.72.0/24"}],` +
		`[{"subnet":"2001:cafe:42::/64"}]],` +
		`"routes":[{"dst":"0.0.0.0/0"},{"dst":"10.5.0.0/16"},{"dst":"2001:cafe:42::/56"}],"type":"static-ish"},` +
		`"master":"eth1","mtu":900,"name":"cbr0",` +
		`"runtimeConfig":{"mac":"02:00:00:00:00:01"},"type":"macvlan"}`
	if diff := cmp.Diff([]string{want}, b.told()); diff != "" {
		t.Error(diff)
	}
}

// TestVersionOfAFormerRuntime has a pod attached by an older runtime. Its delegate gets the present runtime's
// version with a result, which libcni gives in that version, and otherwise the one of its ADD.
func TestVersionOfAFormerRuntime(t *testing.T) {
	result := map[string]any{"cniVersion": "1.1.0", "ips": []any{map[string]any{"address": "10.5.72.2/24"}}}
	for _, c := range []struct {
		name    string
		call    func(Plugin, *skel.CmdArgs) error
		result  map[string]any
		version string // that the delegate reads
	}{
		{"CHECK", Plugin.check, result, "1.1.0"},
		{"DEL", Plugin.del, result, "1.1.0"},
		{"DEL without a result", Plugin.del, nil, "0.3.1"},
		{"GC", Plugin.gc, nil, "0.3.1"},
	} {
		b := newBench(t, both)
		b.conf["cniVersion"] = "0.3.1"
		b.must(b.call(b.plugin().add))
		b.told()
		b.conf["cniVersion"] = "1.1.0"
		b.conf["cni.dev/valid-attachments"] = []any{}
		if c.result != nil {
			b.conf["prevResult"] = c.result
		}
		b.must(b.call(func(a *skel.CmdArgs) error { return c.call(b.plugin(), a) }))
		_, text, _ := strings.Cut(b.told()[0], " {")
		var told types.PluginConf
		if err := json.Unmarshal([]byte("{"+text), &told); err != nil {
			t.Fatal(err)
		}
		if err := version.ParsePrevResult(&told); err != nil || told.CNIVersion != c.version {
			t.Errorf("%s: the delegate reads version %s, want %s: %v", c.name, told.CNIVersion, c.version, err)
		}
	}
}

// TestMistakesKeepNoPodAttached checks that pods are detached although the present configuration
// attaches none.
func TestMistakesKeepNoPodAttached(t *testing.T) {
	for _, c := range []struct {
		member string
		value  any
	}{
		{"delegate", map[string]any{"ipam": map[string]any{"type": "host-local"}}},
		{"delegate", []any{}},
		{"ipam", map[string]any{"routes": 1}},
		{"ipam", "host-local"},
		{"subnetFile", "/does/not/exist"},
	} {
		b := newBench(t, both)
		for _, pod := range []string{"detached", "collected"} {
			if err := b.as("cbr0", pod, "eth0").call(b.plugin().add); err != nil {
				t.Fatal(err)
			}
		}
		b.told()
		b.conf[c.member] = c.value
		b.conf["cni.dev/valid-attachments"] = []any{}
		if err := b.as("cbr0", "detached", "eth0").call(b.plugin().del); err != nil {
			t.Errorf("%s is %v: DEL: %v", c.member, c.value, err)
		}
		if err := b.call(b.plugin().gc); err == nil {
			t.Errorf("%s is %v: GC tells nothing of it", c.member, c.value)
		}
		if left := b.files(); len(b.told()) != 2 || len(left) != 0 {
			t.Errorf("%s is %v: still kept: %v", c.member, c.value, left)
		}
	}
}

// TestGCPassesUnfinishedFiles checks that a file which a crash left half-way does no harm.
func TestGCPassesUnfinishedFiles(t *testing.T) {
	b := newBench(t, both)
	if err := b.call(b.plugin().add); err != nil {
		t.Fatal(err)
	}
	b.told()
	own := filepath.Join(b.dir, "data/.cbr0")
	if err := os.WriteFile(filepath.Join(own, ".c2:eth03920481094380"), []byte(wantBridge), 0o600); err != nil {
		t.Fatal(err)
	}
	b.conf["cni.dev/valid-attachments"] = []any{map[string]any{"containerID": "c1", "ifname": "eth0"}}
	if err := b.call(b.plugin().gc); err != nil {
		t.Error(err)
	}
	if calls := b.told(); len(calls) != 1 || !strings.HasPrefix(calls[0], "bridge GC") {
		t.Errorf("the delegate was called: %v", calls)
	}
}

func TestDelWithDamagedFileUsesTheSubnetFile(t *testing.T) {
	for _, damage := range []string{"", "{", "null", `{"name":"x"}`} {
		b := newBench(t, both)
		if err := b.call(b.plugin().add); err != nil {
			t.Fatal(err)
		}
		b.told()
		if err := os.WriteFile(filepath.Join(b.dir, "data", "c1"), []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := b.call(b.plugin().del); err != nil {
			t.Errorf("damage %q: %v", damage, err)
		}
		if diff := cmp.Diff([]string{"bridge DEL " + wantBridge}, b.told()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestGCForgetsContainersThatAreGone(t *testing.T) {
	b := newBench(t, both)
	if err := b.call(b.plugin().add); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(b.dir, "data", "gone")
	if err := os.WriteFile(gone, []byte(wantBridge), 0o600); err != nil {
		t.Fatal(err)
	}
	b.told()
	b.conf["cni.dev/valid-attachments"] = []any{map[string]any{"containerID": "c1", "ifname": "eth0"}}
	if err := b.call(b.plugin().gc); err != nil {
		t.Fatal(err)
	}
	want := "bridge GC " + strings.Replace(wantBridge, `{"cniVersion"`,
		`{"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}],"cniVersion"`, 1)
	if diff := cmp.Diff([]string{"bridge DEL " + wantBridge, want}, b.told()); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still kept: %v", err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "data", "c1")); err != nil {
		t.Error(err)
	}
}

// GC keeps every attachment if the runtime does not say which are valid, takes both names of
// the list, and takes null for a list of none.
func TestGCNeedsAList(t *testing.T) {
	c1 := []any{map[string]any{"containerID": "c1", "ifname": "eth0"}}
	for name, c := range map[string]struct {
		member string
		value  any
		fails  bool
		kept   int
	}{
		"no list":              {"x", nil, true, 1},
		"the specification's":  {"cni.dev/attachments", c1, false, 1},
		"the library's":        {"cni.dev/valid-attachments", c1, false, 1},
		"null":                 {"cni.dev/valid-attachments", nil, false, 0},
		"not a list":           {"cni.dev/valid-attachments", "all", true, 1},
		"a list without names": {"cni.dev/valid-attachments", []any{}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, both)
			b.must(b.call(b.plugin().add))
			b.conf[c.member] = c.value
			if err := b.call(b.plugin().gc); (err != nil) != c.fails {
				t.Error(err)
			}
			kept, err := plainFiles(filepath.Join(b.dir, "data", networkDir("cbr0")))
			if err != nil || len(kept) != c.kept {
				t.Errorf("kept %v, %v; want %d", kept, err, c.kept)
			}
		})
	}
}

// ADD prepares the bridge that the delegate uses, and no delegate of another kind.
func TestAddClearsTheBridge(t *testing.T) {
	for _, c := range []struct {
		delegate map[string]any
		want     []string
	}{
		{nil, []string{"cni0"}},
		{map[string]any{"bridge": "pods0"}, []string{"pods0"}},
		{map[string]any{"type": "ptp"}, nil},
		{map[string]any{"bridge": "br0", "isGateway": false}, nil}, // its addresses are the host's
		{map[string]any{"isGateway": false, "isDefaultGateway": true}, []string{"cni0"}},
	} {
		b := newBench(t, both)
		b.conf["delegate"] = c.delegate
		p := b.plugin()
		var cleared []string
		p.Clear = func(name string, _ func(netip.Prefix) bool) ([]netip.Prefix, error) {
			cleared = append(cleared, name)
			return nil, errors.New("which does not keep the delegate from its work")
		}
		b.must(b.call(p.add))
		if diff := cmp.Diff(c.want, cleared); diff != "" {
			t.Errorf("%v (-want +have):\n%s", c.delegate, diff)
		}
	}
}

// What the delegate could not release is kept for the next GC.
func TestGCKeepsWhatItCouldNotRelease(t *testing.T) {
	b := newBench(t, both)
	b.conf["cni.dev/valid-attachments"] = []any{}
	b.must(b.as("cbr0", "gone", "eth0").call(b.plugin().add))
	b.exec.err = errors.New("the address file is locked")
	err := b.as("cbr0", "", "").call(b.plugin().gc)
	var told *types.Error // the one that a runtime sees
	if !errors.As(err, &told) || !strings.Contains(told.Msg, "bridge, DEL") || !strings.Contains(told.Msg, "bridge, GC") {
		t.Errorf("GC: %v, want one error that names the failed DEL and GC", err)
	}
	if diff := cmp.Diff([]string{".cbr0/gone:eth0", "gone -> .cbr0/gone:eth0"}, b.files()); diff != "" {
		t.Error(diff)
	}
	b.exec.err = nil
	b.must(b.call(b.plugin().gc))
	if left := b.files(); left != nil {
		t.Errorf("left: %v", left)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name    string
		env     string
		member  string
		value   any
		command func(Plugin, *skel.CmdArgs) error
		fail    error // of the delegate
		code    uint
		msg     string
	}{
		{"delegate with a name", both, "delegate", map[string]any{"name": "x"}, Plugin.add, nil,
			types.ErrInvalidNetworkConfig, "delegate has a member name: remove it, the network's name is used"},
		{"delegate with ipam", both, "delegate", map[string]any{"ipam": nil}, Plugin.add, nil,
			types.ErrInvalidNetworkConfig, "delegate has a member ipam: put it beside delegate, not inside"},
		{"delegate of no type", both, "delegate", map[string]any{"type": 3}, Plugin.add, nil, types.ErrInvalidNetworkConfig,
			"delegate.type is 3: want the name of a plugin"},
		{"delegate is a list", both, "delegate", []any{}, Plugin.add, nil, types.ErrDecodingFailure,
			"the configuration of plugin flannel"},
		{"routes are no list", both, "ipam", map[string]any{"routes": 1}, Plugin.add, nil, types.ErrInvalidNetworkConfig,
			"ipam.routes is not a list"},
		{"no subnet file, STATUS", "", "", nil, Plugin.status, nil, types.ErrPluginNotAvailable, ""},
		{"no subnet file, GC", "", "cni.dev/valid-attachments", nil, Plugin.gc, nil, types.ErrTryAgainLater, ""},
		{"CHECK of an unknown container", both, "", nil, Plugin.check, nil, types.ErrUnknownContainer,
			"container c1 was not added by this plugin"},
		{"the delegate fails", both, "", nil, Plugin.add, types.NewError(types.ErrInvalidNetNS, "no netns", "x"),
			types.ErrInvalidNetNS, "delegate plugin bridge, ADD: no netns; x"},
		{"the delegate is missing", both, "", nil, Plugin.status, errors.New("gone"), types.ErrInternal,
			"delegate plugin bridge, STATUS: gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, c.env)
			b.exec.err = c.fail
			if c.member != "" {
				b.conf[c.member] = c.value
			}
			err := b.call(func(a *skel.CmdArgs) error { return c.command(b.plugin(), a) })
			var e *types.Error
			if !errors.As(err, &e) || e.Code != c.code || c.msg != "" && e.Msg != c.msg {
				t.Errorf("got %#v, want code %d, %s", err, c.code, c.msg)
			}
		})
	}
}

// A delegate that the node lacks leaves nothing that a DEL would need it for.
func TestAddWithoutDelegate(t *testing.T) {
	b := newBench(t, both)
	b.conf["delegate"] = map[string]any{"type": "brigde"}
	b.exec.missing = "brigde"
	if err := b.call(b.plugin().add); err == nil || !strings.Contains(err.Error(), `failed to find plugin "brigde"`) {
		t.Errorf("ADD: %v", err)
	}
	if err := b.call(b.plugin().del); err != nil {
		t.Errorf("DEL: %v", err)
	}
}

// A delegate of the right name that the kernel cannot start has not run either.
func TestAddWithDelegateThatDoesNotStart(t *testing.T) {
	b := newBench(t, both)
	if err := os.WriteFile(filepath.Join(b.dir, "bridge"), []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := b.call(Plugin{}.add); err == nil || !strings.Contains(err.Error(), "exec format error") {
		t.Errorf("ADD: %v", err)
	}
	if err := b.call(Plugin{}.del); err != nil {
		t.Errorf("DEL: %v", err)
	}
}

// What an earlier release kept of such an ADD goes once the configuration is right.
func TestDelByTheRightDelegate(t *testing.T) {
	b := newBench(t, both)
	a := attachment{dataDir: filepath.Join(b.dir, "data"), network: "cbr0", container: "c1", ifname: "eth0"}
	if err := a.keep([]byte(`{"name":"cbr0","type":"brigde"}`)); err != nil {
		t.Fatal(err)
	}
	b.exec.missing = "brigde"
	if err := b.call(b.plugin().del); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"bridge DEL " + wantBridge}, b.told()); diff != "" {
		t.Error(diff)
	}
	if err := b.call(b.plugin().del); err != nil || len(b.told()) != 0 {
		t.Errorf("the attachment is still kept: %v", err)
	}
}
