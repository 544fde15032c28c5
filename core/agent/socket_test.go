package agent

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/control"
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
	s, err := ServeSocket(t.Context(), path, &Health{Version: "v7"})
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if body, err := askAt(path); err != nil || !strings.Contains(body, `"Version": "v7"`) {
		t.Errorf("%q, %v", body, err)
	}
	_, err = ServeSocket(t.Context(), path, &Health{})
	if err == nil || !strings.Contains(err.Error(), "second flanneld") {
		t.Errorf("a second server: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
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
	s, err := ServeSocket(t.Context(), path, &Health{})
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := ServeSocket(t.Context(), path, &Health{}); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
}

// A network with a long name has a socket, too.
func TestSocketOfALongName(t *testing.T) {
	path := control.Socket(filepath.Join(t.TempDir(), strings.Repeat("n", 200)+".env"))
	s, err := ServeSocket(t.Context(), path, &Health{Version: "v7"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if body, err := askAt(path); err != nil || !strings.Contains(body, `"Version": "v7"`) {
		t.Errorf("%q, %v", body, err)
	}
}
