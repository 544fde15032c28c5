package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/harness/kubelab"
)

const (
	shippedManifest = "../deploy/kube-flannel.yml"

	// withoutReads is a user that may list and watch nodes but not read one, so
	// that a daemon with its rights watches whole objects.
	withoutReads = "flannel-without-reads"

	// stages is the time for each measurement, and for the creation of the nodes.
	stages = 15 * time.Minute
)

// BenchmarkAPIServer measures daemons with the rights of the shipped manifest
// beside a real kube-apiserver, over TLS, with 5,000 and with 20,000
// nodes: the start, a heartbeat of each kubelet (an hour has twelve), and every
// node publishing another MAC. For the last two, a second daemon in the same
// run may not read single nodes and so watches whole objects; its figures are
// those with whole in their names.
//
// It needs root, the program that make kube builds, and some 5 GB of memory. It
// writes each node object four times before it begins: three minutes for 5,000
// nodes on a busy machine with two cores.
//
//	make kube && make bench PKG=./bench BENCH=APIServer
func BenchmarkAPIServer(b *testing.B) {
	for _, size := range []struct {
		nodes   int
		network string
	}{{kubeNodes, kubeNetwork}, {20_000, network}} {
		b.Run(fmt.Sprintf("nodes=%d", size.nodes), func(b *testing.B) {
			c := newAPICluster(b, size.nodes, size.network)
			b.Run("start", c.measureStart)
			c.startBoth(b)
			b.Run("heartbeats", c.measureHeartbeats)
			b.Run("roll", c.measureRoll)
		})
	}
}

// apiCluster is a lab of two nodes beside a real API server, which has many
// more node objects.
type apiCluster struct {
	*crowdOfNodes
	server      *kubelab.Cluster
	slim, whole *harness.Node // the daemon that watches metadata, and the other
	kubeconfigs map[*harness.Node]string
	prefixes    map[*harness.Node]string // of the names of a daemon's figures
}

func newAPICluster(b *testing.B, nodes int, network string) *apiCluster {
	b.Helper()
	if os.Getenv(kubelab.ServerEnv) == "" {
		b.Fatalf("%s names no kube-apiserver: make kube builds one, and make bench names it", kubelab.ServerEnv)
	}
	ctx, cancel := context.WithTimeout(b.Context(), stages)
	defer cancel()
	dir := b.TempDir()
	lab := newKubeLab(ctx, b, 2, dir, network)
	server, err := kubelab.Start(ctx, lab, dir)
	if err != nil {
		b.Fatal(err)
	}
	c := &apiCluster{crowdOfNodes: newCrowdOfNodes(b, server.Config, nodes), server: server,
		slim: lab.Nodes[0], whole: lab.Nodes[1]}
	c.prefixes = map[*harness.Node]string{c.slim: "", c.whole: "whole-"}
	if err := c.grant(ctx, dir); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	c.each(ctx, b, 0, c.register)
	b.Logf("%d nodes created in %s", nodes, time.Since(began).Round(time.Second))
	return c
}

// newKubeLab makes a lab whose daemons read their network config from a file in dir.
func newKubeLab(ctx context.Context, b *testing.B, nodes int, dir, network string) *harness.Lab {
	b.Helper()
	daemon, err := harness.BuildDaemon(ctx)
	if err != nil {
		b.Fatal(err)
	}
	conf := filepath.Join(dir, "net-conf.json")
	if err := os.WriteFile(conf, []byte(network), 0o644); err != nil {
		b.Fatal(err)
	}
	lab, err := harness.New(ctx, harness.Options{Nodes: nodes, Daemon: daemon,
		DaemonArgs: []string{"--kube-subnet-mgr", "--net-config-path=" + conf, noProbes}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := lab.Close(); err != nil {
			b.Error(err)
		}
	})
	for i, n := range lab.Nodes {
		n.Env = []string{"NODE_NAME=" + nodeName(i)}
	}
	return lab
}

// grant gives one daemon the rights of the shipped manifest, and the other fewer.
func (c *apiCluster) grant(ctx context.Context, dir string) error {
	objects, err := kubelab.Objects(shippedManifest)
	for _, o := range objects {
		err = errors.Join(err, c.server.Apply(ctx, o, false))
	}
	roles := c.server.Client.RbacV1()
	_, failed := roles.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: withoutReads},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		},
	}, metav1.CreateOptions{})
	err = errors.Join(err, failed)
	_, failed = roles.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: withoutReads},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: withoutReads},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: withoutReads}},
	}, metav1.CreateOptions{})
	other := filepath.Join(dir, "without-reads.kubeconfig")
	c.kubeconfigs = map[*harness.Node]string{c.slim: c.server.Kubeconfig(), c.whole: other}
	return errors.Join(err, failed, writeKubeconfig(c.server.Config, withoutReads, other))
}

// writeKubeconfig writes a kubeconfig with which an administrator acts as another user.
func writeKubeconfig(admin *restclient.Config, user, path string) error {
	config := api.NewConfig()
	config.Clusters["lab"] = &api.Cluster{Server: admin.Host, CertificateAuthority: admin.CAFile}
	config.AuthInfos["lab"] = &api.AuthInfo{Token: admin.BearerToken, Impersonate: user}
	config.Contexts["lab"] = &api.Context{Cluster: "lab", AuthInfo: "lab"}
	config.CurrentContext = "lab"
	return clientcmd.WriteToFile(*config, path)
}

// start starts a daemon and waits until the kernel has all its peers.
func (c *apiCluster) start(ctx context.Context, b *testing.B, n *harness.Node) {
	b.Helper()
	start(ctx, b, n, c.nodes-1, "--kubeconfig-file="+c.kubeconfigs[n])
}

// measureStart measures the start of a daemon on a host without any state.
func (c *apiCluster) measureStart(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), stages)
	defer cancel()
	var cpu time.Duration
	var memory, own int64
	before := received(b, c.slim)
	for b.Loop() {
		c.start(ctx, b, c.slim)
		b.StopTimer()
		cpu += cpuTime(b, c.slim.PID())
		memory = max(memory, peakMemory(b, c.slim.PID()))
		own = max(own, resident(c.slim.PID(), "RssAnon:"))
		clearHost(ctx, b, c.slim)
		b.StartTimer()
	}
	b.ReportMetric(milliseconds(cpu)/float64(b.N), "cpu-ms/op")
	b.ReportMetric(megabytes(memory), "peak-MB")
	b.ReportMetric(megabytes(own), "own-MB")
	b.ReportMetric(float64(received(b, c.slim)-before)/float64(b.N)/1e6, "rx-MB/op")
}

// startBoth starts both daemons, for the other measurements.
func (c *apiCluster) startBoth(b *testing.B) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), stages)
	defer cancel()
	for n := range c.prefixes {
		c.start(ctx, b, n)
	}
	// Its own heartbeat makes the second daemon read its node, which it may not.
	c.beats++
	c.must(b, c.heartbeat(ctx, c.clients[0], 1))
	until(ctx, b, "a watch of whole objects", func() bool { return watchesWhole(c.whole) > 0 })
}

// watchesWhole counts how often a daemon began to watch whole objects.
func watchesWhole(n *harness.Node) int { return strings.Count(n.Log(), "watching whole node objects") }

// measureHeartbeats lets each kubelet write its status, which changes nothing on a host.
func (c *apiCluster) measureHeartbeats(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), stages)
	defer cancel()
	applied := strings.Count(c.slim.Log(), "applied: ")
	m := c.mark(b)
	for b.Loop() {
		c.beats++
		c.each(ctx, b, 0, c.heartbeat)
		m.rest(ctx, b)
	}
	m.report(b, "beat", b.N*c.nodes)
	if strings.Count(c.slim.Log(), "applied: ") != applied {
		b.Errorf("heartbeats have changed the host:\n%s", c.slim.LogTail(5))
	}
}

// measureRoll makes all nodes without a daemon publish another MAC.
func (c *apiCluster) measureRoll(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), stages)
	defer cancel()
	m := c.mark(b)
	for b.Loop() {
		c.rolls++
		c.each(ctx, b, len(c.prefixes), c.publish)
		for n := range c.prefixes {
			until(ctx, b, "all MACs on "+n.Name, func() bool { return c.hasMACs(ctx, b, n) })
		}
		m.rest(ctx, b)
	}
	m.report(b, "node", b.N*(c.nodes-len(c.prefixes)))
}

// hasMACs reports whether a host has the present MACs of all nodes without a daemon.
func (c *apiCluster) hasMACs(ctx context.Context, b *testing.B, n *harness.Node) bool {
	b.Helper()
	state, err := n.State(ctx, extent)
	if err != nil {
		b.Fatal(err)
	}
	have := map[string]bool{}
	for _, neigh := range state.Neighs.All {
		have[neigh.MAC.String()] = true
	}
	for i := len(c.prefixes); i < c.nodes; i++ {
		if !have[c.mac(i)] {
			return false
		}
	}
	return true
}

// usedBoth holds the CPU time and the traffic of both daemons when a measurement began.
type usedBoth struct {
	c        *apiCluster
	began    time.Time
	cpu, got map[*harness.Node]int64
	wholes   int // watches of whole objects by the first daemon
}

func (c *apiCluster) mark(b *testing.B) *usedBoth {
	b.Helper()
	m := &usedBoth{c: c, began: time.Now(), cpu: map[*harness.Node]int64{}, got: map[*harness.Node]int64{},
		wholes: watchesWhole(c.slim)}
	for n := range c.prefixes {
		m.cpu[n] = int64(cpuTime(b, n.PID()))
		m.got[n] = received(b, n)
	}
	return m
}

// rest waits until both daemons have taken in everything.
func (m *usedBoth) rest(ctx context.Context, b *testing.B) {
	b.Helper()
	for n, used := range m.cpu {
		rest(ctx, b, n.PID(), time.Duration(used))
	}
}

// report reports the use of both daemons for each of a number of events.
func (m *usedBoth) report(b *testing.B, unit string, events int) {
	b.Helper()
	for n, name := range m.c.prefixes {
		cpu := time.Duration(int64(cpuTime(b, n.PID())) - m.cpu[n])
		b.ReportMetric(float64(cpu.Microseconds())/float64(events), name+"cpu-us/"+unit)
		b.ReportMetric(float64(received(b, n)-m.got[n])/float64(events), name+"rx-B/"+unit)
		b.ReportMetric(megabytes(peakMemory(b, n.PID())), name+"peak-MB")
	}
	b.ReportMetric(float64(events)/time.Since(m.began).Seconds(), unit+"s/s")
	if watchesWhole(m.c.slim) != m.wholes {
		b.Errorf("the first daemon watched whole objects too:\n%s", m.c.slim.LogTail(5))
	}
}
