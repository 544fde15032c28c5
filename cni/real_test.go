package cni_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/cni/install"
	"github.com/flanneld/flannel/harness"
)

func TestMain(m *testing.M) { harness.MainWithout(m) }

// conflist is the configuration list of the manifest (interop 4.3: the CNI configuration).
const conflist = `{"name":"cbr0","cniVersion":"0.3.1","plugins":[
	{"type":"flannel","subnetFile":%q,"dataDir":%q,"ipam":{"dataDir":%q},
	 "delegate":{"hairpinMode":true,"isDefaultGateway":true}},
	{"type":"portmap","capabilities":{"portMappings":true}}]}`

// kubelet calls plugins on one node, as a container runtime would.
type kubelet struct {
	node *harness.Node
	cni  *libcni.CNIConfig
	list *libcni.NetworkConfigList
	dir  string // the plugins' data

	// before is the list as a runtime reads it that knows no cniVersions.
	before *libcni.NetworkConfigList
}

func newKubelet(t *testing.T, n *harness.Node, bin string) *kubelet {
	t.Helper()
	k := &kubelet{node: n, dir: t.TempDir()}
	k.cni = libcni.NewCNIConfigWithCacheDir([]string{bin}, filepath.Join(k.dir, "cache"), inside{n.Host})
	text := fmt.Sprintf(conflist, n.SubnetFile(), filepath.Join(k.dir, "flannel"), filepath.Join(k.dir, "host-local"))
	var err error
	k.before, err = libcni.NetworkConfFromBytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	k.list, err = libcni.NetworkConfFromBytes(installed(t, bin, text))
	if err != nil {
		t.Fatal(err)
	}
	if k.before.CNIVersion != "0.3.1" || k.list.CNIVersion != "1.1.0" {
		t.Fatalf("an older runtime reads CNI %s, a newer one %s", k.before.CNIVersion, k.list.CNIVersion)
	}
	return k
}

// installed returns the configuration list as flanneld --install-cni leaves it, which has
// asked the reference plugins for their versions.
func installed(t *testing.T, bin, list string) []byte {
	t.Helper()
	dir := t.TempDir()
	files := install.Files{Plugin: filepath.Join(bin, install.PluginName), BinDir: bin,
		ConfDir: filepath.Join(dir, "net.d"), Conf: filepath.Join(dir, "cni-conf.json"), Ask: install.AskPlugin}
	if err := os.WriteFile(files.Conf, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, note, err := files.Install(t.Context()); err != nil || note != "" {
		t.Fatalf("install: %v, %s", err, note)
	}
	text, err := os.ReadFile(filepath.Join(files.ConfDir, install.ConfName))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// inside starts plugins in a host's network namespace.
type inside struct{ host *harness.Host }

func (i inside) ExecPlugin(ctx context.Context, plugin string, stdin []byte, env []string) ([]byte, error) {
	var out, log bytes.Buffer
	cmd := &exec.Cmd{Path: plugin, Args: []string{plugin}, Env: env, Stdin: bytes.NewReader(stdin), Stdout: &out,
		Stderr: &log}
	if err := i.host.Run(ctx, cmd); err != nil {
		return nil, fmt.Errorf("%w: %s%s", err, &out, &log)
	}
	return out.Bytes(), nil
}

func (inside) FindInPath(plugin string, paths []string) (string, error) {
	return filepath.Join(paths[0], plugin), nil
}

func (inside) Decode(text []byte) (version.PluginInfo, error) {
	return (&version.PluginDecoder{}).Decode(text)
}

// attachment tells the plugins which pod to attach, and that the node's port
// 8080 leads to the pod's port 80.
func attachment(pod *harness.Host) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID: pod.Name, IfName: "eth0", NetNS: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), pod.NamespaceFD()),
		CapabilityArgs: map[string]any{"portMappings": []map[string]any{{"hostPort": 8080, "containerPort": 80,
			"protocol": "tcp"}}},
	}
}

// pluginsEnv names the folder with our plugin, under the name flannel, and with
// the reference plugins bridge, host-local and portmap.
const pluginsEnv = "FLANNEL_LAB_PLUGINS"

func TestPodsOfTwoNodes(t *testing.T) {
	if err := harness.Refused(); err != nil {
		t.Skip(err)
	}
	bin := os.Getenv(pluginsEnv)
	if bin == "" {
		t.Skip("no reference CNI plugins: make test PKG=./cni builds them and runs this")
	}
	if _, err := exec.LookPath("iptables"); err != nil {
		t.Skip("the bridge plugin wants the program iptables: " + err.Error())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	daemon, err := harness.BuildDaemon(ctx)
	if err != nil {
		t.Fatal(err)
	}
	lab, err := harness.New(ctx, harness.Options{Nodes: 2, IPv6: true, Daemon: daemon,
		Config: `{"Network":"10.5.0.0/16","SubnetMax":"10.5.199.0","EnableIPv6":true,"IPv6Network":"fd00:10::/48",` +
			`"IPv6SubnetMin":"fd00:10:0:100::","Backend":{"Type":"vxlan"}}`}) // not those of clearsItsBridge
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	kubelets := []*kubelet{newKubelet(t, lab.Nodes[0], bin), newKubelet(t, lab.Nodes[1], bin)}
	saysToTryAgain(ctx, t, kubelets[0])
	for _, n := range lab.Nodes {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	var pods []*harness.Host
	var addrs [][]netip.Addr
	for i, k := range kubelets {
		if err := k.node.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
		pod, err := lab.AddHost(fmt.Sprintf("pod%d", i+1))
		if err != nil {
			t.Fatal(err)
		}
		list := k.list
		if i == 0 {
			list = k.before // the runtime is replaced before it detaches the pod
		}
		pods, addrs = append(pods, pod), append(addrs, k.attach(ctx, t, list, pod))
	}
	for _, a := range addrs[1] {
		if _, err := pods[0].Ping(ctx, a, harness.PingOptions{Size: 1400, DF: true}); err != nil {
			t.Error(err)
		}
	}
	servesOnTheNode(ctx, t, pods[0], pods[1], lab.Nodes[0].Underlay(0).Addr(), addrs[0][0])
	kubelets[1].collects(ctx, t, lab, pods[1])
	for i, k := range kubelets {
		k.detach(ctx, t, pods[i])
	}
	if _, err := pods[0].Ping(ctx, addrs[1][0], harness.PingOptions{}); err == nil {
		t.Error("a pod that was detached can still send")
	}
	kubelets[0].countsItsCalls(ctx, t)
	kubelets[0].clearsItsBridge(ctx, t, lab)
}

// countsItsCalls checks that the daemon serves the numbers of the plugin's calls: one pod was
// attached and, twice, detached, and the first STATUS came before the daemon.
func (k *kubelet) countsItsCalls(ctx context.Context, t *testing.T) {
	t.Helper()
	_, page, err := k.node.Get(ctx, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{command="ADD",outcome="ok"} 1`, `{command="ADD",outcome="failed"} 0`, `{command="DEL",outcome="ok"} 2`,
		`{command="STATUS",outcome="failed"} 1`,
	} {
		if !strings.Contains(page, "\nflannel_cni_calls_total"+want+"\n") {
			t.Errorf("no flannel_cni_calls_total%s in\n%s", want, page)
		}
	}
}

// clearsItsBridge gives the bridge, on which there is no pod, the addresses of a former subnet, and
// checks that a pod can be attached. With a pod on it the bridge stays, and the error tells
// what to do.
func (k *kubelet) clearsItsBridge(ctx context.Context, t *testing.T, lab *harness.Lab) {
	t.Helper()
	former := []netip.Prefix{netip.MustParsePrefix("10.5.250.1/24"), netip.MustParsePrefix("fd00:10:0:fa::1/64")}
	change := func() {
		t.Helper()
		if err := k.node.FlushAddrs("cni0"); err != nil {
			t.Fatal(err)
		}
		for _, a := range former {
			if err := k.node.AddAddr("cni0", a); err != nil {
				t.Fatal(err)
			}
		}
	}
	var pods [2]*harness.Host
	for i := range pods {
		var err error
		pods[i], err = lab.AddHost(fmt.Sprintf("late%d", i))
		if err != nil {
			t.Fatal(err)
		}
	}
	change()
	k.attach(ctx, t, k.list, pods[0])
	link, err := k.node.Netlink().LinkByName("cni0")
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := k.node.Netlink().AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if text := a.IPNet.String(); text == former[0].String() || text == former[1].String() {
			t.Errorf("cni0 still has %s", text)
		}
	}
	change()
	_, err = k.cni.AddNetworkList(ctx, k.list, attachment(pods[1]))
	if err == nil || !strings.Contains(err.Error(), "delete those pods") {
		t.Errorf("ADD beside a pod on a bridge with another address: %v", err)
	}
}

// saysToTryAgain checks the answer on a node without a daemon, and so without a
// subnet.
func saysToTryAgain(ctx context.Context, t *testing.T, k *kubelet) {
	t.Helper()
	err := k.cni.GetStatusNetworkList(ctx, k.list)
	if err == nil || !strings.Contains(err.Error(), "flanneld has not written") {
		t.Errorf("STATUS without a daemon: %v", err)
	}
}

func (k *kubelet) attach(ctx context.Context, t *testing.T, list *libcni.NetworkConfigList,
	pod *harness.Host) []netip.Addr {
	t.Helper()
	if err := k.cni.GetStatusNetworkList(ctx, k.list); err != nil {
		t.Fatal(err)
	}
	result, err := k.cni.AddNetworkList(ctx, list, attachment(pod))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.cni.CheckNetworkList(ctx, k.list, attachment(pod)); err != nil { // the former version has no CHECK
		t.Error(err)
	}
	full, err := types100.NewResultFromResult(result)
	if err != nil {
		t.Fatal(err)
	}
	var addrs []netip.Addr
	for _, ip := range full.IPs {
		a, ok := netip.AddrFromSlice(ip.Address.IP)
		if !ok {
			t.Fatalf("result %v", result)
		}
		addrs = append(addrs, a.Unmap())
	}
	if len(addrs) != 2 {
		t.Fatalf("a pod on two families has the addresses %v", addrs)
	}
	return addrs
}

// collects lets a pod disappear without a DEL, as after a crash of the runtime, and checks that GC
// releases its address and forgets it, and leaves the living pod alone.
func (k *kubelet) collects(ctx context.Context, t *testing.T, lab *harness.Lab, living *harness.Host) {
	t.Helper()
	leaked, err := lab.AddHost("leaked")
	if err != nil {
		t.Fatal(err)
	}
	before := k.kept(t)
	k.attach(ctx, t, k.list, leaked)
	if with := k.kept(t); len(with) != len(before)+4 {
		t.Fatalf("%s keeps %v with the pod and %v without: want two addresses, a configuration and its link",
			k.node.Name, with, before)
	}
	if err := leaked.DeleteLink("eth0"); err != nil { // as the end of its namespace does
		t.Fatal(err)
	}
	// A runtime without its cache knows nothing to detach: all is left to the plugins' GC.
	runtime := libcni.NewCNIConfigWithCacheDir(k.cni.Path, t.TempDir(), inside{k.node.Host})
	valid := []types.GCAttachment{{ContainerID: living.Name, IfName: "eth0"}}
	if err := runtime.GCNetworkList(ctx, k.list, &libcni.GCArgs{ValidAttachments: valid}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, k.kept(t)); diff != "" {
		t.Errorf("after GC (-want +have):\n%s", diff)
	}
	if err := k.cni.CheckNetworkList(ctx, k.list, attachment(living)); err != nil {
		t.Error(err)
	}
}

// kept returns the files that plugins keep of attachments.
func (k *kubelet) kept(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, dir := range []string{"flannel", "host-local/cbr0"} {
		err := filepath.WalkDir(filepath.Join(k.dir, dir), func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && !slices.Contains([]string{"lock", ".gateways"}, e.Name()) &&
				!strings.HasPrefix(e.Name(), "last_reserved_ip") {
				files = append(files, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return files
}

// detach detaches a pod twice, and checks that it leaves nothing behind.
func (k *kubelet) detach(ctx context.Context, t *testing.T, pod *harness.Host) {
	t.Helper()
	for range 2 {
		if err := k.cni.DelNetworkList(ctx, k.list, attachment(pod)); err != nil {
			t.Error(err)
		}
	}
	if err := k.cni.GCNetworkList(ctx, k.list, &libcni.GCArgs{}); err != nil {
		t.Error(err)
	}
	links, err := k.node.Netlink().LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if l.Type() == "veth" && l.Attrs().Name != "eth0" {
			t.Errorf("%s still has %s", k.node.Name, l.Attrs().Name)
		}
	}
	if files := k.kept(t); files != nil {
		t.Errorf("%s still keeps %v", k.node.Name, files)
	}
}

// servesOnTheNode checks that the pod's port 80 answers at the node's port 8080.
func servesOnTheNode(ctx context.Context, t *testing.T, server, client *harness.Host, node, pod netip.Addr) {
	t.Helper()
	l, err := server.Listen(netip.AddrPortFrom(pod, 80))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = c.Write([]byte("hello"))
			_ = c.Close()
		}
	}()
	c, err := client.Dial(ctx, "tcp", netip.AddrPortFrom(node, 8080).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text := make([]byte, 5)
	if n, err := c.Read(text); err != nil || string(text[:n]) != "hello" {
		t.Errorf("the pod answers %q, %v", text[:n], err)
	}
}
