// Package podstest has an API server for tests of package pods.
package podstest

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// Server is an API server with a kubelet behind it: it lists pods, and forwards ports to a listener
// on the loopback address.
type Server struct {
	T        testing.TB
	Pods     string // the list
	Listener string // where ports lead to; empty: the kubelet cannot connect

	mu    sync.Mutex
	asked []string
}

// Token is that of the user who may do all this.
const Token = "secret-of-the-operator"

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+Token {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","message":"pods is forbidden"}`)
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.String())
	s.mu.Unlock()
	if !strings.HasSuffix(r.URL.Path, "/portforward") {
		fmt.Fprint(w, s.Pods)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		s.T.Error(err)
		return
	}
	streams := make(chan httpstream.Stream, 2)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		streams <- stream
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	faults, data := <-streams, <-streams
	if faults.Headers().Get("streamType") != "error" || data.Headers().Get("streamType") != "data" ||
		data.Headers().Get("port") != "9081" {
		s.T.Errorf("streams with the headers %v and %v", faults.Headers(), data.Headers())
	}
	s.carry(faults, data)
	<-conn.CloseChan()
}

// carry copies between the data stream and the listener, as a kubelet does.
func (s *Server) carry(faults, data httpstream.Stream) {
	target, err := new(net.Dialer).DialContext(context.Background(), "tcp", s.Listener)
	if err != nil {
		fmt.Fprintf(faults, "error forwarding port 9081: %v", err)
		faults.Close()
		data.Close()
		return
	}
	faults.Close()
	go func() {
		_, _ = io.Copy(target, data)
		target.Close()
	}()
	_, _ = io.Copy(data, target)
	data.Close()
}

// Asked returns the requests so far.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Start starts the server until the end of the test, and returns the path of a kubeconfig in which the
// context "there" leads to it. The user of that kubeconfig has a token.
func (s *Server) Start(token string) (kubeconfig string) {
	s.T.Helper()
	server := httptest.NewTLSServer(s)
	s.T.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	path := filepath.Join(s.T.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: there, context: {cluster: c, user: u}}]
`, server.URL+"/prefix", base64.StdEncoding.EncodeToString(ca), token)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.T.Fatal(err)
	}
	return path
}
