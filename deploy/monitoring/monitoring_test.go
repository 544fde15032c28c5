// Package monitoring_test checks what operators load into Prometheus and Grafana.
package monitoring_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/agent/metrics"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/internal/cnicalls"
)

// full is a node with a value in every metric.
type full struct{}

func (full) Status() node.Status {
	now := time.Now()
	return node.Status{
		TakenAt: now, Synced: true, Expires: now, MTU: 1450, SubnetsBy: []node.SubnetCount{{Family: "IPv4"}},
		Lanes: []node.LaneStatus{{Name: "host", Watched: true, Work: node.Work{Looks: map[string]uint64{"hint": 1},
			Repairs: map[string]map[string]uint64{"route": {"add": 1}}}}},
		Probes: probe.Summary{
			Interval: time.Minute, Sent: map[string]uint64{"echo": 1}, Lost: map[string]uint64{"echo": 1},
			By: map[probe.Finding]int{probe.Well: 1},
		},
		PacketPaths: []node.PacketPath{{Link: "flannel0", Running: dataplane.Running{Drops: map[string]uint64{"ttl": 1}}}},
	}
}

func (full) Peers() ([]node.Peer, bool) { return []node.Peer{{State: node.PeerServed}}, true }

// page returns the metrics of a node as Prometheus reads them.
func page() string {
	w := httptest.NewRecorder()
	handler := metrics.Handler(true, metrics.Source{Node: full{}, Calls: cnicalls.None})
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// named matches the metrics of the daemon in an expression.
var named = regexp.MustCompile(`\b(flannel|process|go)_[a-z_]+`)

// variables matches the variables of a dashboard in an expression.
var variables = regexp.MustCompile(`\$\w+`)

// known checks that the daemon has the metrics that a text names.
func known(t *testing.T, text string) {
	t.Helper()
	metrics := page()
	for _, name := range named.FindAllString(text, -1) {
		if !strings.Contains(metrics, "\n"+name+" ") && !strings.Contains(metrics, "\n"+name+"{") {
			t.Errorf("flanneld has no metric %s", name)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAlertsNameRealMetrics(t *testing.T) {
	known(t, read(t, "alerts.yaml"))
	known(t, read(t, "alerts_test.yaml"))
}

// promtool runs Prometheus' own checks.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("no promtool: make deps installs it")
	}
	cmd := exec.Command("promtool", args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPromtool(t *testing.T) {
	for name, args := range map[string][]string{
		"rules":           {"check", "rules", "alerts.yaml"},
		"cases of alerts": {"test", "rules", "alerts_test.yaml"},
	} {
		t.Run(name, func(t *testing.T) { promtool(t, "", args...) })
	}
	t.Run("metrics", func(t *testing.T) {
		var ours []string // Go's own metrics are not ours to name
		for line := range strings.SplitSeq(page(), "\n") {
			if strings.Contains(line, "flannel_") {
				ours = append(ours, line)
			}
		}
		promtool(t, strings.Join(ours, "\n")+"\n", "check", "metrics")
	})
}
