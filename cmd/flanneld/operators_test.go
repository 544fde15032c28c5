package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/node"
	client "github.com/flanneld/flannel/tools/daemon"
)

// A daemon answers flannelctl at its socket, and Prometheus at its health listener. It
// removes the socket at its end.
func TestOperatorsAreAnswered(t *testing.T) {
	p, dir := oneHost(t, nil, "--metrics-per-peer")
	subnetFile := dir + "/run/subnet.env"
	p.await("/readyz", "flanneld is ready")
	local := client.Local(subnetFile)
	s, err := local.Status(t.Context())
	if err != nil || !s.Ready || s.Version == "" || s.Age != 0 || time.Since(s.TakenAt) > patience {
		t.Errorf("status %+v, %v", s, err)
	}
	if s.Phase != node.PhaseReady || len(s.SubnetsBy) != 1 || s.SubnetsBy[0].Leased != 1 {
		t.Errorf("phase %s, subnets %+v", s.Phase, s.SubnetsBy)
	}
	if d, err := local.Diff(t.Context()); err != nil || len(d.Lanes) == 0 || len(d.Lanes[0].Lines) > 0 {
		t.Errorf("diff %+v, %v", d, err)
	}
	if st, err := local.State(t.Context()); err != nil || len(st.Lanes) == 0 {
		t.Errorf("state %+v, %v", st, err)
	}
	if peers, err := local.Peers(t.Context()); err != nil || len(peers.Peers) > 0 {
		t.Errorf("peers %+v, %v", peers, err)
	}
	page, err := ask(t.Context(), p.url+"/metrics")
	if err != nil || !strings.Contains(page, "\nflannel_ready 1\n") {
		t.Errorf("metrics: %v\n%s", err, page)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status, out := p.ended(); status != 0 {
		t.Errorf("status %d\n%s", status, out)
	}
	if _, err := os.Lstat(control.Socket(subnetFile)); !os.IsNotExist(err) {
		t.Errorf("the socket after the end: %v", err)
	}
}

// --metrics=false turns the page off.
func TestNoMetrics(t *testing.T) {
	dir := t.TempDir()
	p := launch(t, nil, "--etcd-endpoints=http://127.0.0.1:1", "--metrics=false", "--subnet-file="+dir+"/subnet.env",
		"--state-file="+dir+"/state")
	p.await("/healthz", "flanneld is running")
	if page, err := ask(t.Context(), p.url+"/metrics"); err != nil || !strings.HasPrefix(page, "404") {
		t.Errorf("%q, %v", page, err)
	}
}
