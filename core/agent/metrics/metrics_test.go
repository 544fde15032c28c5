package metrics

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/internal/cnicalls"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// example is a source with a value in every metric.
type example struct {
	status node.Status
	peers  []node.Peer
}

func (e *example) Status() node.Status        { return e.status }
func (e *example) Peers() ([]node.Peer, bool) { return e.peers, true }

func newExample() *example {
	key, err := lease.ParseKey("10.5.4.0-24")
	if err != nil {
		panic(err)
	}
	return &example{
		status: node.Status{
			Phase: node.PhaseProgrammed, SyncedAt: now.Add(-time.Minute), TakenAt: now, Version: "v0.9.0",
			Expires: now.Add(time.Hour), MTU: 1450, Objects: 12, Withheld: 3, Quarantined: 1, Revision: 42,
			Age: 20 * time.Second, Unhealthy: []string{"stalled"}, NoForward: []string{"policy DROP"},
			PeersBy:   node.PeerCounts{Served: 5, Pending: 4, Refused: 3, Lost: 2, Former: 6},
			SubnetsBy: []node.SubnetCount{{Family: "IPv4", Total: 255, Leased: 7, Reserved: 1, Quarantined: 2, Free: 245}},
			Lanes: []node.LaneStatus{
				{Name: "commands"},
				{Name: "host", Watched: true, AsDesired: true, Work: node.Work{
					Looks: map[string]uint64{"hint": 3, "resync": 4}, FailedLooks: 5, LookTime: 700 * time.Millisecond,
					Plans: 2, PlanTime: time.Second, Changes: 14, FailedOps: 1,
					Repairs: map[string]map[string]uint64{"route": {"replace": 6}},
				}},
			},
			Probes: probe.Summary{
				Interval: time.Minute, Sent: map[string]uint64{"echo": 30}, Lost: map[string]uint64{"echo": 2},
				By:  map[probe.Finding]int{probe.Well: 4, probe.Unreachable: 1, probe.Unknown: 3},
				RTT: probe.Histogram{Counts: [len(probe.RTTBounds) + 1]uint64{5, 6, len(probe.RTTBounds): 7}, Sum: 2 * time.Second},
			},
			PacketPaths: []node.PacketPath{{Link: "flannel0", Running: dataplane.Running{Tier: "plain", Carried: 12,
				Drops: map[string]uint64{"no_peer": 9}}}},
		},
		peers: []node.Peer{{Subnet: key, Backend: "vxlan", State: node.PeerServed}},
	}
}

// calls are those of the CNI plugin in the example.
func calls() cnicalls.Calls {
	calls := cnicalls.None()
	calls[cnicalls.Call{Command: "ADD", Failed: true}] = 2
	return calls
}

// scrape returns the page of a source.
func scrape(t testing.TB, source Node, perPeer bool) string {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(perPeer, Source{Node: source, Calls: calls}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// own returns the lines with the node's metrics.
func own(page string) string {
	var lines strings.Builder
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "flannel_") {
			lines.WriteString(strings.ReplaceAll(line, runtime.Version(), "VERSION"))
		}
	}
	return lines.String()
}

// examplePage holds the metrics of the example.
const examplePage = `flannel_apply_duration_seconds_sum{lane="commands"} 0
flannel_apply_duration_seconds_count{lane="commands"} 0
flannel_apply_duration_seconds_sum{lane="host"} 1
flannel_apply_duration_seconds_count{lane="host"} 2
flannel_apply_failures_total{lane="commands"} 0
flannel_apply_failures_total{lane="host"} 1
flannel_backend_change 0
flannel_build_info{goversion="VERSION",version="v0.9.0"} 1
flannel_changes_total{lane="commands"} 0
flannel_changes_total{lane="host"} 14
flannel_cni_calls_total{command="ADD",outcome="failed"} 2
flannel_cni_calls_total{command="ADD",outcome="ok"} 0
flannel_cni_calls_total{command="CHECK",outcome="failed"} 0
flannel_cni_calls_total{command="CHECK",outcome="ok"} 0
flannel_cni_calls_total{command="DEL",outcome="failed"} 0
flannel_cni_calls_total{command="DEL",outcome="ok"} 0
flannel_cni_calls_total{command="GC",outcome="failed"} 0
flannel_cni_calls_total{command="GC",outcome="ok"} 0
flannel_cni_calls_total{command="STATUS",outcome="failed"} 0
flannel_cni_calls_total{command="STATUS",outcome="ok"} 0
flannel_desired_objects 12
flannel_fenced 0
flannel_former_way_peers 6
flannel_forwarding_blocked 1
flannel_lane_as_desired{lane="host"} 1
flannel_lease_expiry_timestamp_seconds 1.7776404e+09
flannel_look_duration_seconds_sum{lane="commands"} 0
flannel_look_duration_seconds_count{lane="commands"} 0
flannel_look_duration_seconds_sum{lane="host"} 0.7
flannel_look_duration_seconds_count{lane="host"} 7
flannel_look_failures_total{lane="commands"} 0
flannel_look_failures_total{lane="host"} 5
flannel_looks_total{cause="hint",lane="host"} 3
flannel_looks_total{cause="resync",lane="host"} 4
flannel_lost_peers 2
flannel_mtu_bytes 1450
flannel_packet_path_dropped_packets_total{link="flannel0",reason="no_peer",tier="plain"} 9
flannel_packet_path_info{link="flannel0",tier="plain"} 1
flannel_packet_path_packets_total{link="flannel0",tier="plain"} 12
flannel_peer_served{backend="vxlan",subnet="10.5.4.0-24"} 1
flannel_peers{state="pending"} 4
flannel_peers{state="refused"} 3
flannel_peers{state="served"} 5
flannel_phase{phase="configured"} 0
flannel_phase{phase="idle"} 0
flannel_phase{phase="leased"} 0
flannel_phase{phase="programmed"} 1
flannel_phase{phase="ready"} 0
flannel_probe_rtt_seconds_bucket{le="0.0001"} 5
flannel_probe_rtt_seconds_bucket{le="0.00025"} 11
flannel_probe_rtt_seconds_bucket{le="0.0005"} 11
flannel_probe_rtt_seconds_bucket{le="0.001"} 11
flannel_probe_rtt_seconds_bucket{le="0.0025"} 11
flannel_probe_rtt_seconds_bucket{le="0.005"} 11
flannel_probe_rtt_seconds_bucket{le="0.01"} 11
flannel_probe_rtt_seconds_bucket{le="0.025"} 11
flannel_probe_rtt_seconds_bucket{le="0.05"} 11
flannel_probe_rtt_seconds_bucket{le="0.1"} 11
flannel_probe_rtt_seconds_bucket{le="0.25"} 11
flannel_probe_rtt_seconds_bucket{le="0.5"} 11
flannel_probe_rtt_seconds_bucket{le="1"} 11
flannel_probe_rtt_seconds_bucket{le="+Inf"} 18
flannel_probe_rtt_seconds_sum 2
flannel_probe_rtt_seconds_count 18
flannel_probed_peers{finding="icmp"} 0
flannel_probed_peers{finding="mtu"} 0
flannel_probed_peers{finding="tcp"} 0
flannel_probed_peers{finding="unknown"} 3
flannel_probed_peers{finding="unreachable"} 1
flannel_probed_peers{finding="well"} 4
flannel_probes_lost_total{kind="echo"} 2
flannel_probes_sent_total{kind="echo"} 30
flannel_quarantined_records 1
flannel_ready 0
flannel_repairs_total{kind="route",lane="host",verb="replace"} 6
flannel_stale 0
flannel_status_age_seconds 20
flannel_store_last_sync_timestamp_seconds 1.77763674e+09
flannel_store_revision 42
flannel_store_synced 0
flannel_subnets{family="IPv4",state="free"} 245
flannel_subnets{family="IPv4",state="leased"} 7
flannel_subnets{family="IPv4",state="quarantined"} 2
flannel_subnets{family="IPv4",state="reserved"} 1
flannel_unhealthy 1
flannel_withheld_deletes 3
`

// Each value of the status is in the metric of its name.
func TestMetrics(t *testing.T) {
	page := scrape(t, newExample(), true)
	if d := cmp.Diff(examplePage, own(page)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, name := range []string{"\ngo_goroutines ", "\nprocess_open_fds "} {
		if !strings.Contains(page, name) {
			t.Errorf("the page lacks %s", name)
		}
	}
	if strings.Contains(scrape(t, newExample(), false), "10.5.4.0") {
		t.Error("the page has a series for a peer, which the operator did not ask for")
	}
}

// The leases of a node that follows the datastore are as new as the status.
func TestLastSyncOfASyncedNode(t *testing.T) {
	e := newExample()
	e.status.Synced = true
	page := scrape(t, e, false)
	for _, want := range []string{
		"flannel_store_synced 1\n", "flannel_store_last_sync_timestamp_seconds 1.7776368e+09\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// The page of a node without a lease has no time at which the lease ends.
func TestUnknownTimesAreAbsent(t *testing.T) {
	page := scrape(t, &example{}, false)
	for _, absent := range []string{"lease_expiry", "last_sync", "mtu_bytes"} {
		if strings.Contains(page, absent) {
			t.Errorf("the page has %s", absent)
		}
	}
}

// Prometheus' linter finds nothing to complain about.
func TestLint(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(scrape(t, newExample(), true))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "flannel_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// BenchmarkScrape is a scrape of a node with many peers: its status is the same as with one.
func BenchmarkScrape(b *testing.B) {
	for _, peers := range []int{5000, 20_000} {
		for _, perPeer := range []bool{false, true} {
			b.Run(fmt.Sprintf("perPeer=%t/%d", perPeer, peers), func(b *testing.B) {
				h := Handler(perPeer, Source{Node: manyPeers(b, peers)})
				size := 0
				b.ReportAllocs()
				for b.Loop() {
					w := httptest.NewRecorder()
					w.Body = new(bytes.Buffer)
					h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
					size = w.Body.Len()
				}
				b.ReportMetric(float64(size), "page-B")
			})
		}
	}
}

// manyPeers is an example with that many peers.
func manyPeers(tb testing.TB, peers int) *example {
	tb.Helper()
	e := newExample()
	e.peers = e.peers[:0]
	for i := range peers {
		key, err := lease.ParseKey(fmt.Sprintf("10.%d.%d.0-24", i/256, i%256))
		if err != nil {
			tb.Fatal(err)
		}
		e.peers = append(e.peers, node.Peer{Subnet: key, Backend: "vxlan", State: node.PeerServed})
	}
	return e
}

// TestPageDoesNotGrowWithPeers checks that the page has as many series for 2,000 peers as for ten,
// unless it has the series of single peers.
func TestPageDoesNotGrowWithPeers(t *testing.T) {
	series := func(peers int, perPeer bool) int {
		count := 0
		for line := range strings.Lines(own(scrape(t, manyPeers(t, peers), perPeer))) {
			if !strings.HasPrefix(line, "#") {
				count++
			}
		}
		return count
	}
	if few, many := series(10, false), series(2000, false); few != many {
		t.Errorf("%d series for ten peers, %d for 2,000", few, many)
	}
	few, many := series(10, true), series(2000, true)
	if each := (many - few) / 1990; each < 1 || each*1990 != many-few {
		t.Errorf("with series for each peer %d for ten peers, %d for 2,000", few, many)
	}
}

// Each named network has its own series.
func TestNetworks(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(false, Source{Node: newExample(), Network: "blue"},
		Source{Node: newExample(), Network: "green"}).ServeHTTP(w,
		httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`flannel_mtu_bytes{network="blue"} 1450`, `flannel_mtu_bytes{network="green"} 1450`,
		`flannel_peers{network="green",state="served"} 5`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("no %s in\n%s", want, own(w.Body.String()))
		}
	}
}
