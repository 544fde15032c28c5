package kube

import (
	"strings"
	"testing"
)

// TestUserLeavesTheURL checks that the URL keeps no credentials: the client library
// shows it in errors and logs.
func TestUserLeavesTheURL(t *testing.T) {
	cfg, err := Options{URL: "https://admin:s3cret@k8s:6443/x"}.client()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://k8s:6443/x" || cfg.Username != "admin" || cfg.Password != "s3cret" {
		t.Errorf("got %s, %s, %s", cfg.Host, cfg.Username, cfg.Password)
	}
	for _, bad := range []string{
		"https://admin:s3/cret@k8s:6443", "admin:s3cret@k8s", "https://admin:s3%cret@k8s", "https://k8s/s3cret@",
	} {
		if _, err := (Options{URL: bad}).client(); err == nil || strings.Contains(err.Error(), "s3") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
