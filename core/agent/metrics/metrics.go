package metrics

import (
	"cmp"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/internal/cnicalls"
)

// maxScrapes is the number of scrapes at the same time.
const maxScrapes = 4

// Node is a node as a scrape reads it.
type Node interface {
	Status() node.Status
	// Peers returns false if the node is busy.
	Peers() ([]node.Peer, bool)
}

// Source is a node with the name of its network, which becomes a label of all its series;
// "" for the unnamed network, whose series have no such label.
type Source struct {
	Node
	Network string
	Calls   func() cnicalls.Calls // of the CNI plugin; nil, or an answer of nil: they are not known
}

// Handler answers scrapes. With perPeer it adds series for each peer.
func Handler(perPeer bool, sources ...Source) http.Handler {
	registry := prometheus.NewRegistry()
	for _, s := range sources {
		var labels prometheus.Labels
		if s.Network != "" {
			labels = prometheus.Labels{"network": s.Network}
		}
		prometheus.WrapRegistererWith(labels, registry).MustRegister(&collector{source: s, calls: s.Calls, perPeer: perPeer})
	}
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// collector makes metrics of the status.
type collector struct {
	source  Node
	calls   func() cnicalls.Calls
	perPeer bool
}

// Describe sends nothing, because the metrics depend on the node.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the status and sends its metrics.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.source.Status()
	p := page{to}
	p.node(s)
	p.store(s)
	p.peers(s)
	p.probes(s.Probes)
	for _, count := range s.SubnetsBy {
		p.subnets(count)
	}
	for _, l := range s.Lanes {
		p.lane(l)
	}
	for _, path := range s.PacketPaths {
		p.packetPath(path)
	}
	if c.calls != nil {
		p.cni(c.calls())
	}
	if !c.perPeer {
		return
	}
	peers, _ := c.source.Peers()
	for _, peer := range peers {
		p.gauge(peerServed, flag(peer.State == node.PeerServed), peer.Subnet.String(), peer.Backend)
	}
}

// page sends the metrics of one scrape.
type page struct{ to chan<- prometheus.Metric }

func (p page) gauge(d *prometheus.Desc, value float64, labels ...string) {
	p.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (p page) counter(d *prometheus.Desc, value uint64, labels ...string) {
	p.to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

// duration sends the number of times that something was done, and the sum of the times.
func (p page) duration(d *prometheus.Desc, number uint64, sum time.Duration, labels ...string) {
	p.to <- prometheus.MustNewConstSummary(d, number, sum.Seconds(), nil, labels...)
}

// moment sends a time, unless it is not known.
func (p page) moment(d *prometheus.Desc, at time.Time) {
	if !at.IsZero() {
		p.gauge(d, float64(at.UnixMilli())/1000)
	}
}

func (p page) node(s node.Status) {
	p.gauge(buildInfo, 1, s.Version, runtime.Version())
	p.gauge(ready, flag(s.Ready))
	for phase := node.PhaseIdle; phase <= node.PhaseReady; phase++ {
		p.gauge(inPhase, flag(s.Phase == phase), phase.String())
	}
	p.gauge(fenced, flag(s.Fenced))
	p.gauge(unhealthy, flag(len(s.Unhealthy) > 0))
	p.gauge(statusAge, s.Age.Seconds())
	p.gauge(blocked, flag(len(s.NoForward) > 0))
	p.moment(leaseExpiry, s.Expires)
	if s.MTU > 0 {
		p.gauge(mtu, float64(s.MTU))
	}
	p.gauge(objects, float64(s.Objects))
	p.gauge(withheld, float64(s.Withheld))
	p.gauge(changing, flag(s.Change != nil))
}

func (p page) store(s node.Status) {
	p.gauge(synced, flag(s.Synced))
	p.gauge(stale, flag(s.Stale))
	at := s.SyncedAt
	if s.Synced {
		at = s.TakenAt
	}
	p.moment(lastSync, at)
	p.gauge(revision, float64(s.Revision))
	p.gauge(quarantined, float64(s.Quarantined))
}

func (p page) peers(s node.Status) {
	p.gauge(peers, float64(s.PeersBy.Served), string(node.PeerServed))
	p.gauge(peers, float64(s.PeersBy.Pending), string(node.PeerPending))
	p.gauge(peers, float64(s.PeersBy.Refused), string(node.PeerRefused))
	p.gauge(lostPeers, float64(s.PeersBy.Lost))
	p.gauge(formerPeers, float64(s.PeersBy.Former))
}

// probes sends nothing if the node probes nothing.
func (p page) probes(s probe.Summary) {
	if s.Interval == 0 {
		return
	}
	for kind, number := range s.Sent {
		p.counter(probesSent, number, kind)
	}
	for kind, number := range s.Lost {
		p.counter(probesLost, number, kind)
	}
	for _, finding := range probe.Findings {
		p.gauge(probedPeers, float64(s.By[finding]), cmp.Or(string(finding), "unknown"))
	}
	number, classes := uint64(0), map[float64]uint64{}
	for i, count := range s.RTT.Counts {
		number += count
		if i < len(probe.RTTBounds) {
			classes[probe.RTTBounds[i].Seconds()] = number
		}
	}
	p.to <- prometheus.MustNewConstHistogram(probeRTT, number, s.RTT.Sum.Seconds(), classes)
}

func (p page) subnets(c node.SubnetCount) {
	p.gauge(subnets, float64(c.Leased), c.Family, "leased")
	p.gauge(subnets, float64(c.Reserved), c.Family, "reserved")
	p.gauge(subnets, float64(c.Quarantined), c.Family, "quarantined")
	p.gauge(subnets, float64(c.Free), c.Family, "free")
}

func (p page) lane(l node.LaneStatus) {
	if l.Watched {
		p.gauge(asDesired, flag(l.AsDesired), l.Name)
	}
	w := l.Work
	looks := uint64(0)
	for cause, number := range w.Looks {
		p.counter(looksTotal, number, l.Name, cause)
		looks += number
	}
	p.counter(lookFailures, w.FailedLooks, l.Name)
	p.duration(lookDuration, looks, w.LookTime, l.Name)
	p.duration(planDuration, w.Plans, w.PlanTime, l.Name)
	p.counter(changes, w.Changes, l.Name)
	p.counter(applyFailures, w.FailedOps, l.Name)
	for kind, verbs := range w.Repairs {
		for verb, number := range verbs {
			p.counter(repairs, number, l.Name, kind, verb)
		}
	}
}

func (p page) packetPath(path node.PacketPath) {
	p.gauge(tier, 1, path.Link, path.Tier)
	p.counter(carried, path.Carried, path.Link, path.Tier)
	for reason, number := range path.Drops {
		p.counter(drops, number, path.Link, path.Tier, reason)
	}
}

func (p page) cni(calls cnicalls.Calls) {
	for call, number := range calls {
		outcome := "ok"
		if call.Failed {
			outcome = "failed"
		}
		p.counter(cniCalls, number, call.Command, outcome)
	}
}

// flag returns 1 for true and 0 for false.
func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
