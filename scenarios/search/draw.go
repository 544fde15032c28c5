package search

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/backend/cloud"
	"github.com/flanneld/flannel/core/backend/extension"
	"github.com/flanneld/flannel/core/backend/ipsec"
	"github.com/flanneld/flannel/core/cidr"
)

// Options narrow what is drawn. Zero values leave it to chance.
type Options struct {
	Nodes    int    // 2 to 7 if zero
	Segments int    // 1 or 2 if zero
	Backend  string // one that carries packets
	Family   string // v4, v6 or dual
	Firewall string // iptables, nftables or none
	Store    string // etcd or kube; etcd if empty
	Networks bool   // each daemon runs several networks, of any backend that fits beside the others
	Change   bool   // the type of the backend may change in every seed, not only in some
	Servers  bool   // the nodes get their leases from flannel servers
	Hostile  bool   // other programs write hostile records in every seed
	NextHops string // always or never; some seeds use next-hop objects if empty
}

// Check returns an error if the search cannot run with the options.
func (o Options) Check() error {
	if !slices.Contains([]string{"", "always", "never"}, o.NextHops) {
		return fmt.Errorf("next hops %q: want always or never", o.NextHops)
	}
	if o.Servers && (o.Networks || o.Store == "kube") {
		return errors.New("servers: want leases in etcd, and one network")
	}
	if o.Backend == "" {
		return nil
	}
	spec, known := all.Find(o.Backend)
	switch {
	case !known:
		return fmt.Errorf("backend %q is unknown: name one of %s", o.Backend, strings.Join(searched(), ", "))
	case spec.CarriesNothing:
		return fmt.Errorf("backend %s makes no way between nodes, and the search judges a cluster by packets between pods: "+
			"name one of %s", spec.Type, strings.Join(searched(), ", "))
	}
	return nil
}

// searched returns the types that the search can run with, sorted.
func searched() []string {
	names := append(backends(""), rare...)
	slices.Sort(names)
	return slices.Compact(names)
}

// Draw makes the plan of a seed.
func Draw(seed uint64, o Options) Plan {
	if o.Networks {
		return drawNetworks(seed, o)
	}
	d := newDrawing(seed, o)
	d.hosts()
	d.joins()
	joined := len(d.plan.Steps)
	for range 3 + d.rng.IntN(18) {
		if d.rng.IntN(4) == 0 {
			d.workload()
		} else {
			d.fault()
		}
	}
	d.extra(joined)
	d.withHostile(o, joined)
	if o.Servers {
		d.withServers(joined)
	}
	return d.plan
}

// newDrawing draws the topology of a seed.
func newDrawing(seed uint64, o Options) *drawing {
	d := &drawing{rng: rand.New(rand.NewPCG(seed, 0x5ea7c4)), plan: Plan{Seed: seed}}
	d.topology(o)
	return d
}

// drawing is a plan being drawn.
type drawing struct {
	rng  *rand.Rand
	plan Plan
	top  shape
}

// shape holds the properties of a topology that decide which faults fit.
type shape struct {
	nodes    int
	segments int
	backend  string
	family   string
	devices  []string
	firewall string
	ttl      time.Duration
	kube     bool
	change   bool // of the backend's type
	mtu      int  // of the uplinks
	nextHops bool // routes may use next-hop objects
	nat      bool // some nodes are behind one
	direct   bool // some packets travel without a tunnel
	roomy    bool // the IPv4 network has many more subnets than the cluster needs
	several  bool // networks, in each daemon
	servers  int
	scarce   bool // the network has hardly more subnets than the cluster needs
}

// overlay draws the families and the number of segments, and names the devices.
func (d *drawing) overlay(s *shape) {
	switch {
	case slices.Contains([]string{"udp", "ipip", "ipsec", "extension"}, s.backend) || byRouter(s.backend):
		s.family = "v4" // which is all that they, or the commands of the search, carry
	case s.family == "":
		s.family = pick(d.rng, "v4", "v4", "dual", "v6")
	}
	s.devices = devicesOf(s.backend, s.family)
	if plainRoutes(s.backend) || s.nodes == 2 { // plain routes need all nodes on one segment
		s.segments = 1
	}
	if s.segments == 0 {
		s.segments = 1 + d.rng.IntN(2)
	}
}

// devicesOf names the devices of a backend in its usual form.
func devicesOf(backend, family string) []string {
	both := map[string][2]string{
		"vxlan": {"flannel.1", "flannel-v6.1"}, "wireguard": {"flannel-wg", "flannel-wg-v6"},
		"udp": {"flannel0"}, "ipip": {"flannel.ipip"},
	}
	device, ok := both[backend]
	switch {
	case !ok:
		return nil
	case family == "v4":
		return []string{device[cidr.V4]}
	case family == "v6":
		return []string{device[cidr.V6]}
	}
	return device[:]
}

func (d *drawing) topology(o Options) {
	s := shape{nodes: o.Nodes, segments: o.Segments, backend: o.Backend, family: o.Family, firewall: o.Firewall}
	s.kube = o.Store == "kube"
	if s.nodes == 0 {
		s.nodes = 2 + d.rng.IntN(6)
	}
	if s.backend == "" {
		s.backend = pick(d.rng, backends(s.family)...)
	}
	d.someSeeds(o, &s)
	d.overlay(&s)
	input := ""
	if s.backend == "extension" {
		input = pick(d.rng, commands...)
	} else if inputs := examples(s.backend); len(inputs) > 0 {
		input = pick(d.rng, append(inputs, "", "", "")...)
	}
	if strings.Contains(input, `"Mode"`) {
		s.devices = []string{"flannel-wg"} // it carries both families
	}
	s.mtu = 1500
	s.direct = plainRoutes(s.backend) || byRouter(s.backend) || strings.Contains(input, "DirectRouting")
	if s.firewall == "" {
		s.firewall = pick(d.rng, "none", "none", "iptables", "nftables")
	}
	s.ttl = pick(d.rng, 5*time.Second, 6*time.Second, 30*time.Second, 10*time.Minute, time.Hour, 24*time.Hour)
	s.roomy = s.family != "v6" && !s.kube
	line := fmt.Sprintf("topology nodes=%d segments=%d backend=%s families=%s ttl=%s",
		s.nodes, s.segments, s.backend, s.family, s.ttl)
	if s.firewall != "none" {
		line += " firewall=" + s.firewall
	}
	if d.rng.IntN(4) == 0 {
		line += " blackhole=yes"
	}
	if d.rng.IntN(4) == 0 {
		line += " ipforward=yes"
	}
	if s.family == "v4" {
		if d.rng.IntN(5) == 0 {
			s.mtu = 1280
			line += " mtu=1280"
		}
		line += d.some("noipv6", s.nodes)
	}
	nat := d.behindNAT(s)
	s.nat = nat != ""
	line += nat
	if s.kube {
		line += " store=kube"
	} else if s.family != "v6" && d.rng.IntN(3) == 0 {
		// Few subnets, so that nodes get in each other's way.
		bits := 0
		for 1<<bits < s.nodes+2 {
			bits++
		}
		line += fmt.Sprintf(" network=10.5.0.0/%d subnetlen=24", 24-bits)
		s.roomy, s.scarce = false, true
	}
	if d.probing() {
		line += " probes=20s"
	}
	over := d.nextHops(o)
	s.nextHops = over != ""
	line += over
	d.top = s
	d.plan.Nodes, d.plan.Outward = s.nodes, s.firewall != "none"
	d.plan.Topology = Step{Line: line, Input: input}
}

// someSeeds decides whether the type of the backend may change, and puts a rare backend in the
// place of another one. Its stream of random numbers is its own, so all other seeds stay the same.
func (d *drawing) someSeeds(o Options, s *shape) {
	rng := rand.New(rand.NewPCG(d.plan.Seed, 0xc4a9))
	s.change = o.Change || rng.IntN(8) == 0
	if o.Backend != "" || o.Family == "v6" || o.Family == "dual" {
		return
	}
	for _, backend := range []string{extension.Type, ipsec.Type} {
		if rng.IntN(24) == 0 {
			s.backend = backend
		}
	}
	if rng.IntN(24) == 0 {
		s.backend = pick(rng, clouds...)
	}
}

// probing decides whether the daemons probe their peers, by a stream of random numbers of
// its own.
func (d *drawing) probing() bool {
	return rand.New(rand.NewPCG(d.plan.Seed, 0x9e0b)).IntN(4) == 0
}

// nextHops decides from how many peers on routes use next-hop objects, if they do at all. Its stream of
// random numbers is its own.
func (d *drawing) nextHops(o Options) string {
	switch o.NextHops {
	case "always":
		return " nexthops=1"
	case "never":
		return ""
	}
	rng := rand.New(rand.NewPCG(d.plan.Seed, 0x4e40))
	if rng.IntN(3) > 0 {
		return ""
	}
	return fmt.Sprintf(" nexthops=%d", 1+rng.IntN(4))
}

// commands are Backend objects whose commands make a plain route to each peer.
// Commands learn nothing of a route that another program removes, so they run
// again every few seconds.
var commands = []string{
	`{"Type":"extension","SubnetAddCommand":"ip route replace $SUBNET via $PUBLIC_IP",` +
		`"SubnetRemoveCommand":"ip route del $SUBNET via $PUBLIC_IP","ResyncPeriod":5}`,
	`{"Type":"extension","PreStartupCommand":"echo data","PostStartupCommand":"echo $SUBNET",` +
		`"SubnetAddCommand":"read DATA; ip route add $SUBNET via $PUBLIC_IP",` +
		`"SubnetRemoveCommand":"ip route del $SUBNET via $PUBLIC_IP","ShutdownCommand":"echo end","ResyncPeriod":5}`,
}

// plainRoutes reports whether a backend's packets travel without a tunnel.
func plainRoutes(backend string) bool { return backend == "host-gw" || backend == "extension" }

// familyWords are the registry's combinations of families, by the words of a scenario.
var familyWords = map[string]backend.Families{"v4": backend.IPv4Only, "v6": backend.IPv6Only, "dual": backend.Both}

// backends returns the backends that carry packets of a family, or of
// any family for "". A backend with several drawn options is listed more often.
func backends(family string) []string {
	var names []string
	for _, s := range all.Specs() {
		if slices.Contains(rare, s.Type) || s.CarriesNothing ||
			family != "" && !slices.Contains(s.Carries, familyWords[family]) {
			continue
		}
		for range min(mostOdds, 1+len(examples(s.Type))) {
			names = append(names, s.Type)
		}
	}
	return names
}

// clouds lists the types whose packets the router of the underlay forwards by a cloud provider's tables.
var clouds = []string{cloud.GCE, cloud.AWS, cloud.Ali, cloud.Tencent}

// byRouter reports whether a backend is one of the clouds.
func byRouter(backend string) bool { return slices.Contains(clouds, backend) }

// rare lists the types that few seeds draw, and to which no cluster changes.
var rare = append([]string{extension.Type, ipsec.Type}, clouds...)

// mostOdds bounds how often a type with many options is drawn.
const mostOdds = 3

// examples returns a Backend object for each option of a type that the search draws.
func examples(backendType string) []string {
	var inputs []string
	spec, _ := all.Find(backendType)
	for _, o := range spec.Options {
		if o.Example != "" && !o.Required {
			inputs = append(inputs, spec.Example(o))
		}
	}
	return inputs
}

// joins starts the nodes, all at once or one after the other. Some hosts forward
// no packets at first.
func (d *drawing) joins() {
	for i := range d.top.nodes {
		if d.rng.IntN(12) == 0 {
			d.step(0, Step{Line: fmt.Sprintf("fault n%d forwarding off", i+1)})
		}
	}
	if d.rng.IntN(2) == 0 {
		d.step(0, Step{Line: "start all"})
		return
	}
	for i := range d.top.nodes {
		d.step(d.rng.Int64N(int64(2*time.Second)), Step{Line: fmt.Sprintf("start n%d", i+1)})
	}
}

func (d *drawing) step(after int64, s Step) {
	s.After = time.Duration(after).Round(time.Millisecond)
	d.plan.Steps = append(d.plan.Steps, s)
}

// pause is how long to wait before a step: mostly less than the world needs to
// come to rest, sometimes longer than a lease lasts.
func (d *drawing) pause() int64 {
	most := []time.Duration{10 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second, 20 * time.Second, time.Minute}
	return d.rng.Int64N(int64(most[d.rng.IntN(len(most))]))
}

func (d *drawing) node() string { return fmt.Sprintf("n%d", 1+d.rng.IntN(d.top.nodes)) }

// workload draws a step in which nodes leave, come back or move.
func (d *drawing) workload() {
	n := d.node()
	d.step(d.pause(), Step{Line: strings.ReplaceAll(pick(d.rng,
		"stop N may-fail", "start N may-fail", "restart N may-fail", "restart N kill may-fail",
	), "N", n)})
}

// fault draws a fault that fits the topology, by weight. It may find nothing to
// break, because its target may be broken already.
func (d *drawing) fault() {
	var fit []fault
	for _, f := range faults() {
		if d.top.several && !slices.Contains(amongNetworks, f.name) {
			continue
		}
		if f.fits == nil || f.fits(d.top) {
			for range f.weight {
				fit = append(fit, f)
			}
		}
	}
	f := fit[d.rng.IntN(len(fit))]
	for i, s := range f.draw(d) {
		after := int64(s.After)
		if i == 0 {
			after, s.Fault = d.pause(), f.name
		}
		s.Line += " may-fail"
		d.step(after, s)
	}
}

// fill replaces placeholders in a directive with names, as words or as the values of
// arguments: N is a node, P another one, D a device of the backend, G a segment.
func (d *drawing) fill(line string) string { return d.fillAll([]Step{{Line: line}})[0].Line }

// fillAll is fill for several steps, with the same names in all of them.
func (d *drawing) fillAll(steps []Step) []Step {
	n := d.rng.IntN(d.top.nodes)
	peer := n
	if d.top.nodes > 1 {
		peer = (n + 1 + d.rng.IntN(d.top.nodes-1)) % d.top.nodes
	}
	names := map[string]string{
		"N": fmt.Sprintf("n%d", n+1), "P": fmt.Sprintf("n%d", peer+1),
		"G": fmt.Sprintf("segment%d", d.rng.IntN(d.top.segments)),
	}
	if len(d.top.devices) > 0 {
		names["D"] = pick(d.rng, d.top.devices...)
	}
	filled := make([]Step, len(steps))
	for i, s := range steps {
		words := strings.Split(s.Line, " ")
		for j, w := range words {
			key, value, isArgument := strings.Cut(w, "=")
			if name, ok := names[w]; ok {
				words[j] = name
			} else if name, ok := names[value]; ok && isArgument {
				words[j] = key + "=" + name
			}
		}
		s.Line = strings.Join(words, " ")
		filled[i] = s
	}
	return filled
}

// pastTTL is longer than a lease lasts.
func (d *drawing) pastTTL() time.Duration { return d.top.ttl + 5*time.Second }

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }
