package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
)

// askAt gets /status at a socket.
func askAt(path string) (string, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	resp, err := client.Get("http://flanneld/status")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subnet.env.sock")
	old := syscall.Umask(0)
	s := socketAt(t, path)
	syscall.Umask(old)
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if body, err := askAt(path); err != nil || !strings.Contains(body, `"Version": "v7"`) {
		t.Errorf("%q, %v", body, err)
	}
	second := NewSocket(path, &Health{})
	for i, want := range []string{"second flanneld", ""} { // the log says it once
		if e := second.Keep(t.Context()); textOf(e) == "" != (want == "") || !strings.Contains(textOf(e), want) {
			t.Errorf("a second server, try %d: %v", i, e)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
	if e := second.Keep(t.Context()); textOf(e) != "flannelctl can ask at "+path {
		t.Errorf("the second server after that: %v", e)
	}
	if err := errors.Join(s.Close(), second.Close()); err != nil {
		t.Error(err)
	}
}

// socketAt returns a socket that answers at a path.
func socketAt(t *testing.T, path string) *Socket {
	t.Helper()
	s := NewSocket(path, &Health{Version: "v7"})
	if e := s.Keep(t.Context()); e != nil {
		t.Fatal(e.Text)
	}
	return s
}

// textOf returns the text of an event, "" for none.
func textOf(e *node.Event) string {
	if e == nil {
		return ""
	}
	return e.Text
}

// A socket is there again after another program has removed it, with its directory, and a request that
// began before is answered.
func TestSocketIsMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "flannel")
	path := filepath.Join(dir, "subnet.env.sock")
	s := socketAt(t, path)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const request = "GET /status HTTP/1.1\r\nHost: flanneld\r\n"
	answers := bufio.NewReader(conn)
	answered := func() string {
		if _, err := io.WriteString(conn, "\r\n"); err != nil {
			t.Error(err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			return err.Error()
		}
		body, err := io.ReadAll(resp.Body)
		return fmt.Sprint(string(body), err)
	}
	write := func() {
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if body := answered(); !strings.Contains(body, `"Version": "v7"`) {
		t.Errorf("before: %s", body)
	}
	write()
	for range 2 {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if e := s.Keep(t.Context()); e == nil || e.Kind != "socket-gone" {
			t.Errorf("logged %v", e)
		}
		if e := s.Keep(t.Context()); e != nil {
			t.Errorf("logged %v of a socket that is there", e)
		}
		if body, err := askAt(path); err != nil || !strings.Contains(body, `"Version": "v7"`) {
			t.Errorf("%q, %v", body, err)
		}
	}
	if body := answered(); !strings.Contains(body, `"Version": "v7"`) {
		t.Errorf("the earlier request: %s", body)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
	if e := s.Keep(t.Context()); e != nil {
		t.Errorf("after Close: %v", e)
	}
}

// Another daemon that has made its socket at the path keeps it, also when this one ends.
func TestSocketOfAnotherDaemonStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subnet.env.sock")
	s := socketAt(t, path)
	if err := os.Rename(path, path+".old"); err != nil { // its inode is not free
		t.Fatal(err)
	}
	other := NewSocket(path, &Health{Version: "v8"})
	if e := other.Keep(t.Context()); e != nil {
		t.Fatal(e.Text)
	}
	if e := s.Keep(t.Context()); !strings.Contains(textOf(e), "second flanneld") {
		t.Errorf("logged %v", e)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if body, err := askAt(path); err != nil || !strings.Contains(body, `"Version": "v8"`) {
		t.Errorf("%q, %v", body, err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// Each look at the host keeps the socket at its path.
func TestLookKeepsSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subnet.env.sock")
	s := socketAt(t, path)
	defer s.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks := node.Effects{Lanes: onHost(node.LaneEffects{Look: &node.Look{SubnetFile: true}})}
	n := &fakeNode{react: func(turn int, in node.Input) node.Effects {
		if turn == 0 {
			return looks
		}
		cancel()
		return node.Effects{}
	}}
	var logged []string
	run(ctx, Options{
		Lanes: [node.LaneCount]driver.Lane{node.HostLane: &fakeHost{}}, Store: &fakeStore{}, Health: &Health{}, Socket: s,
		Log: func(e node.Event) { logged = append(logged, e.Kind) },
	}, n)
	if _, err := askAt(path); err != nil || len(logged) != 1 || logged[0] != "socket-gone" {
		t.Errorf("logged %q; asked: %v", logged, err)
	}
}

// A daemon that was killed leaves its socket, and the next one takes its place.
func TestSocketOfAKilledDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subnet.env.sock")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	s := socketAt(t, path)
	defer s.Close()
	if _, err := askAt(path); err != nil {
		t.Error(err)
	}
}

// A file that is no socket stays.
func TestSocketTouchesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subnet.env.sock")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if e := NewSocket(path, &Health{}).Keep(t.Context()); !strings.Contains(textOf(e), "no socket") {
		t.Errorf("logged %v", e)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
}

// A network with a long name has a socket, too.
func TestSocketOfALongName(t *testing.T) {
	path := control.Socket(filepath.Join(t.TempDir(), strings.Repeat("n", 200)+".env"))
	s := socketAt(t, path)
	defer s.Close()
	if body, err := askAt(path); err != nil || !strings.Contains(body, `"Version": "v7"`) {
		t.Errorf("%q, %v", body, err)
	}
}

// Each look at the host tells the node which bridges the CNI configuration names.
func TestLookReadsBridges(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	n := &fakeNode{react: func(turn int, in node.Input) node.Effects {
		if turn == 0 {
			return node.Effects{Lanes: onHost(node.LaneEffects{Look: &node.Look{SubnetFile: true}})}
		}
		if looked := in.Lanes[node.HostLane].Looked; looked != nil {
			got = looked.PodBridges
			cancel()
		}
		return node.Effects{}
	}}
	run(ctx, Options{
		Lanes: [node.LaneCount]driver.Lane{node.HostLane: &fakeHost{}}, Store: &fakeStore{}, Health: &Health{},
		Log: func(node.Event) {}, PodBridges: func() []string { return []string{"pods0"} },
	}, n)
	if !slices.Equal(got, []string{"pods0"}) {
		t.Errorf("the node learns of %q, want pods0", got)
	}
}
