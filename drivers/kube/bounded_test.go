package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/nodelease"
)

// TestHangingCredentialPlugin asks with a kubeconfig whose credential plugin does not end. The request ends with its
// context, and without that at its limit, and requests do not pile up.
func TestHangingCredentialPlugin(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(config, []byte(fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: cat, args: [%s],
  interactiveMode: Never}}}]
`, fifo)), 0o600); err != nil {
		t.Fatal(err)
	}
	names, err := nodelease.ParsePrefix(nodelease.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newServer(Options{Kubeconfig: config}.client, names)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := s.list(ctx, "", func(item) {}); done <- err }()
	plugin, err := os.OpenFile(fifo, os.O_WRONLY, 0) // once the plugin runs
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // plugins that wait, or that begin later, end
		_ = os.Remove(fifo)
		_ = plugin.Close()
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a request that was given up: %v", err)
	}
	b := s.now.usual.Client.Transport.(*bounded)
	b.limit = time.Millisecond
	refused := false
	for range mostHanging + 1 {
		_, err := s.list(t.Context(), "", func(item) {})
		refused = errors.Is(err, errHanging)
		if err == nil || !refused && !errors.Is(err, errNoAnswer) || !strings.Contains(err.Error(), "plugin") {
			t.Errorf("a request while the plugin hangs: %v", err)
		}
	}
	if !refused {
		t.Errorf("more than %d requests hang at once", mostHanging)
	}
}

// answerLater answers after a request was given up.
type answerLater struct{ begin, closed chan struct{} }

func (a answerLater) RoundTrip(*http.Request) (*http.Response, error) {
	<-a.begin
	return &http.Response{Body: a}, nil
}

func (a answerLater) Read([]byte) (int, error) { return 0, errors.New("no text") }
func (a answerLater) Close() error             { close(a.closed); return nil }

// TestLateAnswer closes an answer that comes after its request was given up.
func TestLateAnswer(t *testing.T) {
	a := answerLater{make(chan struct{}), make(chan struct{})}
	b := &bounded{a, time.Millisecond, make(chan struct{}, 1)}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.RoundTrip(req); !errors.Is(err, errNoAnswer) {
		t.Errorf("no answer: %v", err)
	}
	close(a.begin)
	<-a.closed
}
