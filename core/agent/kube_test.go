package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/kube"
	"github.com/flanneld/flannel/drivers/kube/kubetest"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// member is a whole node of a Kubernetes cluster: an agent on a simulated host,
// with the real store and a fake API server.
type member struct {
	t     *testing.T
	api   *kubetest.Server
	host  countedHost
	store countedStore
	opts  Options

	mu     sync.Mutex
	events []node.Event
}

func (m *member) log(e node.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, e)
}

// said counts the events above level Info whose text contains text.
func (m *member) said(text string) (count int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		if e.Level > node.Info && strings.Contains(e.Text, text) {
			count++
		}
	}
	return count
}

func (m *member) status() node.Status { return m.opts.Health.Status() }

// countedHost counts its looks. It gives no hints, because those depend on the
// time. Its mutex is needed because a simulated host is made for one thread.
type countedHost struct {
	driver.Lane
	one   sync.Mutex
	looks atomic.Int32
}

func (h *countedHost) Look(ctx context.Context, e dataplane.Extent) (driver.Observation, error) {
	h.one.Lock()
	defer h.one.Unlock()
	h.looks.Add(1)
	return h.Lane.Look(ctx, e)
}

func (h *countedHost) Apply(ctx context.Context, ops []dataplane.Op) []error {
	h.one.Lock()
	defer h.one.Unlock()
	return h.Lane.Apply(ctx, ops)
}

func (h *countedHost) Hints() <-chan struct{} { return nil }

// countedStore counts the calls of View: the agent makes one each time the store
// wakes it.
type countedStore struct {
	*kube.Store
	views atomic.Int32
}

func (s *countedStore) View() lease.View {
	s.views.Add(1)
	return s.Store.View()
}

// join starts the agent of node n1 with a network config and an annotation prefix.
func join(t *testing.T, config, prefix string, objects ...*corev1.Node) *member {
	t.Helper()
	m := &member{t: t, api: kubetest.New()}
	for _, n := range objects {
		m.api.Put(n)
	}
	server := httptest.NewServer(m.api)
	t.Cleanup(server.Close)
	t.Cleanup(m.api.Break)
	host := kernel.NewNetwork(world.New(1)).NewHost("n1")
	_, err := host.AddUplink("eth0", host.Network().NewSegment("lan"), netip.MustParsePrefix("192.168.64.1/24"),
		netip.MustParsePrefix("fd00:64::1/64"))
	if err != nil {
		t.Fatal(err)
	}
	for _, gateway := range []string{"192.168.64.254", "fd00:64::fe"} {
		if err := host.DefaultRoute(netip.MustParseAddr(gateway)); err != nil {
			t.Fatal(err)
		}
	}
	host.Forward()
	m.host.Lane = host.Driver()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/net-conf.json", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	m.store.Store, err = kube.Open(t.Context(), kube.Options{
		URL: server.URL, Node: "n1", ConfigFile: dir + "/net-conf.json", AnnotationPrefix: prefix,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.store.Close)
	m.opts = Options{
		Node:  node.Options{Rand: rand.New(rand.NewPCG(1, 1)), Resync: time.Hour},
		Lanes: [node.LaneCount]driver.Lane{node.HostLane: &m.host}, Store: &m.store,
		SubnetFile: dir + "/subnet.env", StateFile: dir + "/state.json",
		Health: &Health{}, Log: m.log,
		Notify: func(e node.Event) {
			m.store.Notify(kube.Notice{Reason: e.Notice(), Message: e.Text, Warning: e.Level != node.Info})
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); Run(ctx, m.opts) }()
	t.Cleanup(func() { cancel(); <-ended })
	m.until("the node to be ready", m.ready)
	return m
}

func (m *member) until(what string, holds func() bool) {
	m.t.Helper()
	end := time.NewTimer(30 * time.Second)
	defer end.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end.C:
			m.t.Fatalf("waited for %s in vain; %v, log %v", what, m.opts.Health.verdict(time.Now()).unready(), m.events)
		}
	}
}

func (m *member) ready() bool { return len(m.opts.Health.verdict(time.Now()).unready()) == 0 }

func (m *member) read(file string) string {
	m.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text)
}

// state returns the observed state of a device.
func (m *member) state(device string) *dataplane.State {
	m.t.Helper()
	m.host.one.Lock()
	defer m.host.one.Unlock()
	seen, err := m.host.Lane.Look(m.t.Context(), dataplane.Extent{
		Links:    []string{device},
		Networks: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return seen.State
}

// object returns a node object with these pod CIDRs and annotations.
func object(name string, cidrs []string, annotations map[string]string) *corev1.Node {
	n := &corev1.Node{}
	n.Name, n.Annotations = name, annotations
	n.Spec.PodCIDRs = cidrs
	return n
}

// peerObject returns the node object with the i-th subnet of a vxlan network.
func peerObject(i int) *corev1.Node {
	const prefix = "flannel.alpha.coreos.com/"
	return object(fmt.Sprintf("n%d", i), []string{fmt.Sprintf("10.244.%d.0/24", i)}, map[string]string{
		prefix + "kube-subnet-manager": "true", prefix + "backend-type": "vxlan",
		prefix + "public-ip":    fmt.Sprintf("192.168.64.%d", i),
		prefix + "backend-data": fmt.Sprintf(`{"VNI":1,"VtepMAC":"c6:00:00:00:00:%02x"}`, i),
	})
}

const kubeVXLAN = `{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan"}}`

// The store finds a stored MAC under the effective prefix and in any JSON
// layout, and then rewrites the annotation in the form that upstream can read
// (interop K4: upstream splits the JSON as text).
func TestStoredMACOfANode(t *testing.T) {
	const mac = "c6:d2:32:6f:8f:01"
	for given, prefix := range map[string]string{
		"": "flannel.alpha.coreos.com/", "flannel.alpha.coreos.com/": "flannel.alpha.coreos.com/",
		"example.com/lab": "example.com/lab-", "example.com/lab-": "example.com/lab-",
	} {
		t.Run(given, func(t *testing.T) {
			m := join(t, kubeVXLAN, given, object("n1", []string{"10.244.1.0/24"}, map[string]string{
				prefix + "kube-subnet-manager": "true", prefix + "backend-type": "vxlan", prefix + "public-ip": "192.168.64.1",
				prefix + "backend-data":                  "{ \"VtepMAC\" : \"" + mac + "\",\n \"VNI\": 1 }",
				"flannel.alpha.coreos.com0/backend-data": `{"VNI":1,"VtepMAC":"c6:ff:ff:ff:ff:ff"}`,
			}))
			if link := m.state("flannel.1").Links["flannel.1"]; link.MAC.String() != mac {
				t.Errorf("the device has MAC %s, want the stored %s", link.MAC, mac)
			}
			m.until("the annotation in upstream's form", func() bool {
				return m.api.Node("n1").Annotations[prefix+"backend-data"] == `{"VNI":1,"VtepMAC":"`+mac+`"}`
			})
		})
	}
}

// The alloc backend serves both families: the node is ready, pods get addresses
// of both, and the node publishes both public addresses for peers that require
// them (interop K8: upstream skips every peer that lacks an IPv6 annotation).
func TestAllocWithBothFamilies(t *testing.T) {
	m := join(t, `{"Network":"10.244.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10:244::/48",`+
		`"Backend":{"Type":"alloc"}}`, "",
		object("n1", []string{"10.244.1.0/24", "fd00:10:244:1::/64"}, nil), peerObject(2))
	file := m.read(m.opts.SubnetFile)
	for _, line := range []string{
		"FLANNEL_SUBNET=10.244.1.1/24\n", "FLANNEL_IPV6_SUBNET=fd00:10:244:1::1/64\n", "FLANNEL_MTU=1500\n",
	} {
		if !strings.Contains(file, line) {
			t.Errorf("the subnet file lacks %q:\n%s", line, file)
		}
	}
	for suffix, want := range map[string]string{
		"kube-subnet-manager": "true", "public-ip": "192.168.64.1", "public-ipv6": "fd00:64::1",
	} {
		if got := m.api.Node("n1").Annotations["flannel.alpha.coreos.com/"+suffix]; got != want {
			t.Errorf("annotation %s is %q, want %q", suffix, got, want)
		}
	}
	if s := m.state("flannel.1"); s.Routes.Len() > 0 {
		t.Errorf("routes of a backend that makes none:\n%s", s.Dump())
	}
}

// Heartbeats of a whole cluster cause no work: the store wakes no node, and no
// node looks at its host.
func TestHeartbeats(t *testing.T) {
	const peers, rounds = 50, 12
	objects := []*corev1.Node{object("n1", []string{"10.244.1.0/24"}, nil)}
	for i := range peers {
		objects = append(objects, peerObject(2+i))
	}
	m := join(t, kubeVXLAN, "", objects...)
	// marker makes a change that concerns the node, and waits until it is programmed.
	marker := func(i int) {
		t.Helper()
		m.api.Put(peerObject(i))
		revision := m.api.Node(peerObject(i).Name).ResourceVersion
		m.until("a new peer", func() bool {
			return fmt.Sprint(m.status().Programmed) == revision
		})
	}
	marker(101)
	looks, views := m.host.looks.Load(), m.store.views.Load()
	for range rounds {
		for _, n := range objects {
			m.api.Change(n.Name, func(n *corev1.Node) {
				ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
				ready.LastHeartbeatTime = metav1.Now()
				n.Status.Conditions = []corev1.NodeCondition{ready}
				n.Labels = map[string]string{"heartbeat": metav1.Now().String()}
			})
		}
	}
	marker(102) // the node sees it after all heartbeats
	if n := m.store.views.Load() - views; n != 1 {
		t.Errorf("the node was woken %d times for %d heartbeats and one new peer, want 1", n, rounds*len(objects))
	}
	if n := m.host.looks.Load() - looks; n != 2 {
		t.Errorf("the host was looked at %d times, want 2: before and after the new peer", n)
	}
}

// A node whose subnet another node claims writes an event, and no other node does.
func TestOverlapBecomesAnEvent(t *testing.T) {
	m := join(t, kubeVXLAN, "", object("n1", []string{"10.244.1.0/24"}, nil), peerObject(2))
	m.api.Put(object("n3", []string{"10.244.2.0/24"}, peerObject(3).Annotations))
	m.until("the claim to n2's subnet to be ignored", func() bool { return m.status().Quarantined == 1 })
	m.api.Put(object("n4", []string{"10.244.1.0/24"}, peerObject(4).Annotations))
	m.until("an event of the claim to ours", func() bool { return len(m.api.Reported()) > 0 })
	events := m.api.Reported()
	e := events[0]
	if len(events) != 1 || e.Reason != "SubnetOverlap" || e.Type != corev1.EventTypeWarning ||
		e.InvolvedObject.UID != m.api.Node("n1").UID ||
		!strings.Contains(e.Message, "node n4: pod CIDR 10.244.1.0/24 overlaps that of node n1") {
		t.Errorf("events: %+v", events)
	}
}

// A node with an invalid record is left out, counted, and named in the log once.
// No other peer is touched. The node is a peer again once its record is valid.
func TestBadNode(t *testing.T) {
	const prefix = "flannel.alpha.coreos.com/"
	says := func(suffix, value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations[prefix+suffix] = value }
	}
	has := func(cidrs ...string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.PodCIDRs = cidrs }
	}
	for name, c := range map[string]struct {
		spoil func(*corev1.Node)
		names string // in the log
	}{
		"no pod CIDR":          {has(), "node n4 has no pod CIDR"},
		"a malformed pod CIDR": {has("10.244.4.0"), `pod CIDR "10.244.4.0" is not a CIDR`},
		"too many pod CIDRs":   {has("10.244.4.0/24", "fd00::/64", "fd00:1::/64"), "node n4 has 3 pod CIDRs"},
		"another's pod CIDR":   {has("10.244.2.0/24"), "10.244.2.0/24 overlaps that of node n2"},
		"part of another's":    {has("10.244.2.128/25"), "10.244.2.128/25 overlaps that of node n2"},
		"our pod CIDR":         {has("10.244.1.0/24"), "10.244.1.0/24 overlaps that of node n1"},
		"the whole network":    {has("10.244.0.0/16"), "10.244.0.0/16 overlaps that of node n1"},
		"everything":           {has("0.0.0.0/0"), "0.0.0.0/0 is outside the network"},
		"outside the network":  {has("10.245.4.0/24"), "10.245.4.0/24 is outside the network"},
		"no public address":    {says("public-ip", ""), "node n4 has no public address"},
		"a malformed address":  {says("public-ip", "x"), "want an IPv4 address"},
		"our public address":   {says("public-ip", "192.168.64.1"), "its public address 192.168.64.1 is our own"},
		"a multicast address":  {says("public-ip", "224.0.0.1"), "no node can be reached at its public address 224.0.0.1"},
		"an overlay address":   {says("public-ip", "10.244.2.1"), "no node can be reached at its public address 10.244.2.1"},
		"malformed data":       {says("backend-data", "{"), "not JSON"},
		"data of another kind": {says("backend-data", "[7]"), "cannot unmarshal array"},
		"no data":              {says("backend-data", "null"), "10.244.4.0-24"},
		"oversized data":       {says("backend-data", `"`+strings.Repeat("x", 200_000)+`"`), "longer than 65536 bytes"},
		"a multicast MAC": {says("backend-data", `{"VNI":1,"VtepMAC":"01:00:5e:00:00:01"}`),
			"VtepMAC 01:00:5e:00:00:01 is not a unicast address"},
		"another's MAC": {says("backend-data", `{"VNI":1,"VtepMAC":"c6:00:00:00:00:02"}`), "10.244.4.0-24"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := peerObject(4)
			c.spoil(bad)
			m := join(t, kubeVXLAN, "", object("n1", []string{"10.244.1.0/24"}, nil), peerObject(2), peerObject(3), bad)
			for i := range 20 {
				m.api.Change("n4", says("backend-v6-data", fmt.Sprint(i))) // of a family that is off
				if i%5 == 0 {
					m.api.Put(peerObject(50 + i)) // makes a new snapshot
				}
			}
			revision := m.api.Node("n4").ResourceVersion
			m.until("the last change", func() bool { return fmt.Sprint(m.status().Programmed) == revision && m.ready() })
			if n := m.said(c.names); n != 1 {
				t.Errorf("named %d times, want once: %v", n, m.events)
			}
			if s := m.status(); s.Quarantined+len(s.Problems) != 1 {
				t.Errorf("%d quarantined, problems %q, want one of them", s.Quarantined, s.Problems)
			}
			if s := m.state("flannel.1"); routes(s) != 6 || s.Neighs.Len() != 6 || s.FDB.Len() != 6 {
				t.Errorf("not what 6 peers need:\n%s", s.Dump())
			}
			m.api.Delete("n4") // pod CIDRs do not change
			m.api.Put(peerObject(4))
			m.until("the fixed peer", func() bool { return routes(m.state("flannel.1")) == 7 })
			m.until("the end of the count", func() bool { s := m.status(); return s.Quarantined+len(s.Problems) == 0 })
		})
	}
}

// routes counts the routes to peers, which are those with a gateway.
func routes(s *dataplane.State) (count int) {
	for _, r := range s.Routes.All {
		if r.Via.IsValid() {
			count++
		}
	}
	return count
}
