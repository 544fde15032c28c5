package charon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/strongswan/govici/vici"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/drivertest"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
	"github.com/flanneld/flannel/internal/pace"
	"github.com/flanneld/flannel/internal/wholedump"
)

func TestMain(m *testing.M) { linuxtest.Main(m) }

// psk is a key of the contract's length.
var psk = dataplane.NewPassphrase(strings.Repeat("0123456789abcdef", 6))

// node is a driver whose charon runs in the network namespace of a descriptor.
type node struct {
	*Driver
	t testing.TB
}

// newNode wraps charon, which keeps the number of its process in one file for all
// namespaces.
func newNode(t testing.TB, ns int) *node {
	t.Helper()
	path, err := Find("")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec nsenter --net=/proc/%d/fd/%d unshare -m sh -c "+
		"'mount -t tmpfs none /run && exec %s'\n", os.Getpid(), ns, path)
	wrapper := filepath.Join(dir, "charon")
	if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("/tmp", "flannel-charon-") // t.TempDir may lie on a file system without sockets
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(Options{
		Exec: wrapper, URI: "unix://" + filepath.Join(sockets, "vici"), Config: filepath.Join(dir, "conf"), Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	handle, err := wholedump.At(netns.NsHandle(ns), unix.NETLINK_XFRM)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(handle.Close)
	d.kernelKeys = func() ([]netlink.XfrmState, error) { return handle.XfrmStateList(netlink.FAMILY_V4) }
	d.dropKey = handle.XfrmStateDel
	t.Cleanup(func() {
		_ = d.Close()
		_ = os.RemoveAll(sockets)
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("charon:\n%s", text)
		}
		_ = log.Close()
	})
	return &node{d, t}
}

// dump returns what the driver reads.
func (n *node) dump() string {
	n.t.Helper()
	seen, err := n.Look(n.t.Context(), dataplane.Extent{Passphrase: psk})
	if err != nil {
		n.t.Fatal(err)
	}
	return seen.State.Dump()
}

// do performs ops that must succeed.
func (n *node) do(ops ...string) {
	n.t.Helper()
	n.dump() // brings the passphrase
	for i, err := range n.Apply(n.t.Context(), parse(n.t, ops...)) {
		if err != nil {
			n.t.Fatalf("%s: %v", ops[i], err)
		}
	}
}

func parse(t testing.TB, lines ...string) []dataplane.Op {
	t.Helper()
	ops := make([]dataplane.Op, len(lines))
	for i, line := range lines {
		op, err := dataplane.ParseOp(strings.ReplaceAll(line, "PSK", string(psk.Name())))
		if err != nil {
			t.Fatal(err)
		}
		ops[i] = op
	}
	return ops
}

// await waits until a look returns a text.
func (n *node) await(want string) {
	n.t.Helper()
	want = strings.ReplaceAll(want, "PSK", string(psk.Name()))
	have := ""
	for end := time.Now().Add(pace.Scale(20 * time.Second)); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		have = n.dump()
		if have == want {
			return
		}
	}
	n.t.Fatalf("charon runs with\n%swant\n%s", have, want)
}

const (
	name  = "192.168.64.1-10.5.1.0/24-10.5.2.0/24-192.168.64.2"
	back  = "192.168.64.2-10.5.2.0/24-10.5.1.0/24-192.168.64.1"
	esp   = "esp aes128gcm16-sha256-prfsha256-ecp256"
	ready = "ike charon\nshared-key 192.168.64.1 PSK\nshared-key 192.168.64.2 PSK\nconn " + name + " " + esp + "\n"
)

// hosts returns a host whose uplink leads to another one.
func hosts(t testing.TB) *linuxtest.Host {
	t.Helper()
	h := linuxtest.HostOf(t)
	for _, line := range []string{"add link eth0 type ethernet mtu 1500 mac 02:00:00:00:00:01 up",
		"add addr 192.168.64.1/24 dev eth0"} {
		action, err := drivertest.ParseAction(line)
		if err == nil {
			err = h.Do(t.Context(), action)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	far, err := h.Far.LinkByName("eth0")
	if err == nil {
		addr := &netlink.Addr{IPNet: linuxtest.IPNet(netip.MustParsePrefix("192.168.64.2/24"))}
		err = h.Far.AddrAdd(far, addr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Keys and connections are loaded, read back, changed and unloaded.
func TestLoadAndReadBack(t *testing.T) {
	n := newNode(t, int(hosts(t).NS))
	if text := n.dump(); text != "" {
		t.Fatalf("without charon there is\n%s", text)
	}
	n.do("add ike charon", "replace shared-key 192.168.64.1 PSK", "replace shared-key 192.168.64.2 PSK",
		"replace conn "+name+" "+esp)
	n.await(ready)
	n.do("replace conn "+name+" "+esp+" encap", "replace ike charon")
	n.await(strings.Replace(ready, esp, esp+" encap", 1))
	n.do("del conn "+name, "del shared-key 192.168.64.2 PSK")
	n.await("ike charon\nshared-key 192.168.64.1 PSK\n")
	n.do("del ike charon")
	n.await("")
}

// Charon asks silent peers whether they still have their tunnels.
func TestSilentPeersAreAsked(t *testing.T) {
	n := newNode(t, int(hosts(t).NS))
	n.do("add ike charon", "replace shared-key 192.168.64.1 PSK", "replace shared-key 192.168.64.2 PSK",
		"replace conn "+name+" "+esp)
	listed, err := n.session.StreamedCommandRequest("list-conns", "list-conn", nil)
	if err != nil || len(listed) == 0 {
		t.Fatalf("charon lists %v: %v", listed, err)
	}
	loaded, ok := listed[0].Get(name).(*vici.Message)
	if !ok || loaded.Get("dpd_delay") != "60" {
		t.Errorf("charon lists %v", listed[0])
	}
}

// A refused op names the reason, and the ops after it are performed.
func TestRefusals(t *testing.T) {
	n := newNode(t, int(hosts(t).NS))
	n.do("add ike charon")
	ops := parse(t, "add ike charon", "replace conn "+name+" esp nonsense", "replace shared-key 192.168.64.1 psk-0",
		"del conn "+name, "del shared-key 192.168.64.1 psk-0", "add tunnel "+name, "replace shared-key 192.168.64.1 PSK")
	wants := []error{driver.ErrExists, driver.ErrInvalid, driver.ErrInvalid, driver.ErrNotFound, nil,
		driver.ErrNotFound, nil}
	for i, err := range n.Apply(t.Context(), ops) {
		if !errors.Is(err, wants[i]) {
			t.Errorf("%s: %v, want %v", ops[i], err, wants[i])
		}
		if err != nil && strings.Contains(err.Error(), psk.Reveal()) {
			t.Error("an error shows the key")
		}
		if i == 1 && !strings.Contains(err.Error(), "this charon knows no ESP proposal nonsense") {
			t.Error(err)
		}
	}
}

// A tunnel without keys may end by itself after the look that found it. The driver asks for
// its replacement all the same.
func TestTunnelEndedMeanwhile(t *testing.T) {
	n := newNode(t, int(hosts(t).NS))
	n.do("add ike charon", "replace shared-key 192.168.64.1 PSK", "replace shared-key 192.168.64.2 PSK",
		"replace conn "+name+" "+esp)
	n.await(ready)
	ops := parse(t, "add tunnel "+name)
	n.keyless = map[dataplane.ConnKey]bool{ops[0].Object.(dataplane.Tunnel).ConnKey: true}
	if err := n.Apply(t.Context(), ops)[0]; err != nil {
		t.Error(err)
	}
}

// When charon dies, the driver notices at once, and can start it again.
func TestCharonDies(t *testing.T) {
	n := newNode(t, int(hosts(t).NS))
	n.do("add ike charon")
	n.await("ike charon\n")
	if err := n.child.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	n.await("")
	select {
	case <-n.Hints():
	case <-time.After(pace.Scale(5 * time.Second)):
		t.Error("no hint")
	}
	n.do("add ike charon")
	n.await("ike charon\n")
}

// The driver leaves another IKE daemon at the socket alone.
func TestForeignDaemon(t *testing.T) {
	n := newNode(t, int(hosts(t).NS))
	foreign, err := net.Listen("unix", n.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	errs := n.Apply(t.Context(), parse(t, "add ike charon"))
	if !errors.Is(errs[0], driver.ErrBusy) || !strings.Contains(errs[0].Error(), "another IKE daemon answers at") {
		t.Error(errs)
	}
}

// The driver starts no charon on a kernel without the features that charon needs.
func TestKernelLacksESP(t *testing.T) {
	lacks := errors.New("this kernel has no ESP")
	d, err := New(Options{URI: DefaultURI, Kernel: func() error { return lacks }})
	if err != nil {
		t.Fatal(err)
	}
	if errs := d.Apply(t.Context(), parse(t, "add ike charon")); !errors.Is(errs[0], lacks) || d.child != nil {
		t.Error(errs)
	}
}

func TestNoCharon(t *testing.T) {
	if _, err := New(Options{URI: "tcp://127.0.0.1:1"}); err == nil ||
		err.Error() != `--charon-vici-uri "tcp://127.0.0.1:1": want unix:// and the path of a socket, such as `+DefaultURI {
		t.Error(err)
	}
	d, err := New(Options{URI: DefaultURI, Exec: "/nonexistent/charon"})
	if err != nil {
		t.Fatal(err)
	}
	errs := d.Apply(context.Background(), parse(t, "add ike charon", "replace conn "+name+" "+esp))
	if errs[0] == nil || !strings.Contains(errs[0].Error(), "--charon-exec-path") {
		t.Error(errs[0])
	}
	if !errors.Is(errs[1], driver.ErrNotFound) {
		t.Error(errs[1])
	}
}

// Two nodes establish a tunnel. When one of them unloads its connection, the other's tunnel ends too.
// When its charon is killed, the keys stay, and the next charon removes them.
func TestTunnel(t *testing.T) {
	h := hosts(t)
	needESP(t, h)
	a, b := newNode(t, int(h.NS)), newNode(t, int(h.FarNS))
	keys := []string{"add ike charon", "replace shared-key 192.168.64.1 PSK", "replace shared-key 192.168.64.2 PSK"}
	a.do(append(keys, "replace conn "+name+" "+esp)...)
	b.do(append(keys, "replace conn "+back+" "+esp)...)
	a.await(ready + "tunnel " + name + "\n")
	b.await(strings.ReplaceAll(ready, name, back) + "tunnel " + back + "\n")
	a.do("del conn " + name)
	a.await("ike charon\nshared-key 192.168.64.1 PSK\nshared-key 192.168.64.2 PSK\n")
	b.await(strings.ReplaceAll(ready, name, back))
	a.do("replace conn " + name + " " + esp)
	a.await(ready + "tunnel " + name + "\n")
	if err := a.child.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	a.await("")
	if n := a.keys(); n == 0 {
		t.Error("the keys are gone with charon")
	}
	a.do(keys...)
	former := "former-key 192.168.64.1 to 192.168.64.2\nformer-key 192.168.64.2 to 192.168.64.1\n"
	a.await("ike charon\nshared-key 192.168.64.1 PSK\nshared-key 192.168.64.2 PSK\n" + former)
	a.do("del former-key 192.168.64.1 to 192.168.64.2", "del former-key 192.168.64.2 to 192.168.64.1")
	if n := a.keys(); n > 0 {
		t.Errorf("%d keys are left", n)
	}
}

// keys returns the number of ESP keys in the kernel.
func (n *node) keys() int {
	n.t.Helper()
	states, err := n.kernelKeys()
	if err != nil {
		n.t.Fatal(err)
	}
	return len(slices.DeleteFunc(states, func(s netlink.XfrmState) bool { return !isOurs(s) }))
}

// needESP skips a test on a kernel without ESP.
func needESP(t *testing.T, h *linuxtest.Host) {
	t.Helper()
	state := &netlink.XfrmState{
		Src: net.IPv4(192, 0, 2, 1), Dst: net.IPv4(192, 0, 2, 2), Proto: netlink.XFRM_PROTO_ESP,
		Mode: netlink.XFRM_MODE_TUNNEL, Spi: 0x1000, Reqid: 1,
		Aead: &netlink.XfrmStateAlgo{Name: "rfc4106(gcm(aes))", Key: make([]byte, 20), ICVLen: 128},
	}
	err := h.XfrmStateAdd(state)
	if err == nil {
		err = h.XfrmStateDel(state)
	}
	if err != nil {
		t.Skipf("this kernel has no ESP: %v", err)
	}
}
