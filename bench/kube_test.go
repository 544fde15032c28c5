package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/drivers/kube/kubetest"
	"github.com/flanneld/flannel/harness"
)

const (
	kubeNetwork = `{"Network":"10.64.0.0/10","Backend":{"Type":"vxlan"}}`
	kubeNodes   = 5000
	kubePort    = 8080

	// asServer makes the test binary an API server of kubeNodes nodes, which
	// listens where the variable says, so that the benchmark's own process does
	// not add to the daemon's figures.
	asServer = "TEST_BINARY_IS_API_SERVER"
)

// serveCluster serves until the process is killed.
func serveCluster(addr string) {
	fmt.Fprintln(os.Stderr, http.ListenAndServe(addr, kubetest.Crowd(kubeNodes)))
	os.Exit(1)
}

// cluster is a lab of one node and an API server that has its node object.
type cluster struct {
	lab    *harness.Lab
	n      *harness.Node
	url    string
	client *http.Client
}

func newCluster(b *testing.B) (context.Context, *cluster) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), limit)
	b.Cleanup(cancel)
	daemon, err := harness.BuildDaemon(ctx)
	if err != nil {
		b.Fatal(err)
	}
	conf := b.TempDir() + "/net-conf.json"
	if err := os.WriteFile(conf, []byte(kubeNetwork), 0o644); err != nil {
		b.Fatal(err)
	}
	lab, err := harness.New(ctx, harness.Options{Nodes: 1, Daemon: daemon})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := lab.Close(); err != nil {
			b.Error(err)
		}
	})
	c := &cluster{lab: lab, n: lab.Nodes[0]}
	addr := netip.AddrPortFrom(lab.Store.Addr(cidr.V4), kubePort).String()
	c.url = "http://" + addr
	c.client = &http.Client{Transport: &http.Transport{DialContext: lab.Store.Dial}}
	lab.Options.DaemonArgs = []string{"--kube-subnet-mgr", "--kube-api-url=" + c.url, "--net-config-path=" + conf,
		noProbes}
	c.n.Env = []string{"NODE_NAME=" + kubetest.Realistic(0).Name}
	server := &exec.Cmd{Path: "/proc/self/exe", Args: os.Args[:1], Stderr: os.Stderr}
	server.Env = append(os.Environ(), asServer+"="+addr)
	stop, err := lab.Store.Background(server)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stop() })
	until(ctx, b, "the API server", func() bool { return c.ask(ctx, "/api/v1/nodes/"+kubetest.Realistic(0).Name) == nil })
	return ctx, c
}

// ask sends a request to the API server.
func (c *cluster) ask(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return err
	}
	r, err := c.client.Do(req)
	if err == nil {
		err = r.Body.Close()
	}
	return err
}

func (c *cluster) do(ctx context.Context, b *testing.B, path string) {
	b.Helper()
	if err := c.ask(ctx, path); err != nil {
		b.Fatal(err)
	}
}

// received returns how many bytes have arrived on a node's uplink.
func received(b *testing.B, n *harness.Node) int64 {
	b.Helper()
	link, err := n.Netlink().LinkByName("eth0")
	if err != nil {
		b.Fatal(err)
	}
	return int64(link.Attrs().Statistics.RxBytes)
}

// BenchmarkKubernetesStart is BenchmarkStart where the leases are on 5,000
// realistic node objects.
func BenchmarkKubernetesStart(b *testing.B) {
	ctx, c := newCluster(b)
	var cpu time.Duration
	var memory int64
	logged := len(c.n.Log())
	for b.Loop() {
		start(ctx, b, c.n, kubeNodes-1)
		b.StopTimer()
		cpu += cpuTime(b, c.n.PID())
		memory = max(memory, peakMemory(b, c.n.PID()))
		clearHost(ctx, b, c.n)
		b.StartTimer()
	}
	b.ReportMetric(milliseconds(cpu)/float64(b.N), "cpu-ms/op")
	b.ReportMetric(megabytes(memory), "peak-MB")
	b.ReportMetric(float64(len(c.n.Log())-logged)/float64(b.N), "log-B/op")
}

// clearHost ends a node's daemon and removes everything that it left on the host.
func clearHost(ctx context.Context, b *testing.B, n *harness.Node) {
	b.Helper()
	for _, err := range []error{
		n.Stop(ctx), n.DeleteLink(device),
		os.Remove(n.SubnetFile()), os.Remove(n.StateFile()),
	} {
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkKubernetesRoll makes all 5,000 nodes publish another MAC, one right
// after the other, and waits until the host holds all of them.
func BenchmarkKubernetesRoll(b *testing.B) {
	ctx, c := newCluster(b)
	start(ctx, b, c.n, kubeNodes-1)
	last := kubetest.Realistic(kubeNodes - 1).Spec.PodCIDR
	began, bytesBefore := cpuTime(b, c.n.PID()), received(b, c.n)
	for b.Loop() {
		before := c.macOf(ctx, b, last)
		mark := cpuTime(b, c.n.PID())
		c.do(ctx, b, "/do/roll")
		until(ctx, b, "the last node's MAC", func() bool { return c.macOf(ctx, b, last) != before })
		rest(ctx, b, c.n.PID(), mark)
	}
	b.ReportMetric(float64((cpuTime(b, c.n.PID())-began).Microseconds())/float64(b.N*kubeNodes), "cpu-us/node")
	b.ReportMetric(float64(received(b, c.n)-bytesBefore)/float64(b.N*kubeNodes), "rx-B/node")
	b.ReportMetric(megabytes(peakMemory(b, c.n.PID())), "peak-MB")
}

// macOf returns the MAC to which the host sends packets for a subnet.
func (c *cluster) macOf(ctx context.Context, b *testing.B, subnet string) string {
	b.Helper()
	state, err := c.n.State(ctx, extent)
	if err != nil {
		b.Fatal(err)
	}
	for key, n := range state.Neighs.All {
		if key.IP == netip.MustParsePrefix(subnet).Addr() {
			return n.MAC.String()
		}
	}
	return ""
}

// BenchmarkKubernetesHeartbeats has every node write its status every five
// minutes of an hour. The daemon reads all of it and changes nothing.
func BenchmarkKubernetesHeartbeats(b *testing.B) {
	ctx, c := newCluster(b)
	start(ctx, b, c.n, kubeNodes-1)
	logged := len(c.n.Log())
	used := cpuTime(b, c.n.PID())
	before := received(b, c.n)
	for b.Loop() {
		for range 12 {
			c.do(ctx, b, "/do/heartbeat")
		}
	}
	c.do(ctx, b, "/do/last") // the daemon sees it after all of them
	until(ctx, b, "the last node", func() bool { return c.macOf(ctx, b, kubetest.Last) != "" })
	b.ReportMetric(milliseconds(cpuTime(b, c.n.PID())-used)/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(received(b, c.n)-before)/float64(b.N)/1e6, "rx-MB/op")
	if lines := strings.Count(string(c.n.Log()[logged:]), "applied: "); lines != 1 {
		b.Errorf("the host was changed %d times, want once, for the last node", lines)
	}
}
