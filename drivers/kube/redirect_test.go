package kube

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An API server that answers with a redirect leads no request to another host.
func TestFollowsNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("asked for %s elsewhere", r.URL)
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "net-conf.json")
	conf := []byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	if err := os.WriteFile(file, conf, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := List(t.Context(), Options{URL: server.URL, ConfigFile: file})
	if err == nil || !strings.HasPrefix(err.Error(), "list the nodes: ") {
		t.Errorf("error %v, want one about the list", err)
	}
}
