package planted

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/scenarios/search"
	"github.com/flanneld/flannel/scenarios/simworld"
	"github.com/flanneld/flannel/tools/trace"
)

// most is the number of seeds that may miss a defect.
const most = 150

// defect is a broken variant of the daemon.
type defect struct {
	id, what string
	plant    func() simworld.Wrap // in the daemons, for one run; nil: nothing
	trace    func(trace.Kernel) trace.Kernel
	opts     search.Options
	often    []search.Step // steps that expose it, drawn in addition to the others
	last     []search.Step // steps that end those
}

var defects = []defect{
	{id: "E1", what: "a garbage record empties the snapshot", plant: seeing(e1)},
	{id: "E3", what: "a lost race ends the process", plant: living(e3)},
	{id: "E4", what: "a reservation is renewed with a TTL", plant: asking(e4, e4renew)},
	{id: "E5", what: "renewals overwrite the record without a condition", plant: asking(asItIs, e5), often: takeovers},
	{id: "E7", what: "overlaps go unnoticed", plant: living(e7), opts: search.Options{Family: "dual"}},
	{id: "E10", what: "the first broken watch is the last", plant: e10},
	{id: "E11", what: "changed attributes are ignored", plant: seeing(e11), often: moves},
	{id: "E11", what: "the node does not see its own record", plant: living(e11own)},
	{id: "P1", what: "the host is read only once", plant: acting(p1)},
	{id: "P1", what: "only the first look reads everything", plant: glancing, often: unheard,
		opts: search.Options{Backend: "vxlan", Family: "v4"}},
	{id: "P2", what: "objects that a former run left are not seen", plant: acting(p2), often: leavers},
	{id: "P3", what: "a recreated device has another MAC", plant: acting(p3)},
	{id: "P4", what: "an existing device's MTU stays", plant: acting(p4)},
	{id: "P7", what: "a moved peer's old FDB entry stays", plant: acting(p7), opts: search.Options{Backend: "vxlan"},
		often: moves},
	{id: "P8", what: "direct routing is decided only once", plant: acting(p8),
		opts: search.Options{Backend: "vxlan", Family: "v4"}, often: detour, last: detour[1:]},
	{id: "P9", what: "a wrong route is never replaced", plant: acting(p9), often: shadows},
	{id: "P15", what: "foreign routes are deleted", plant: acting(p15), often: foreignRoutes},
	{id: "P16", what: "the uplink gets the settings of the overlay device", plant: overreaching,
		opts: search.Options{Backend: "vxlan", Family: "v6"}},
	{id: "F1", what: "nftables compare the whole mark", plant: guarding(spelt(f1rule1)), opts: nftables},
	{id: "F1", what: "nftables do not masquerade packets of other hosts to remote pods",
		plant: guarding(spelt(f1rule4)), opts: nftables},
	{id: "F1", what: "the rules are read only once", plant: guarding(f1look), opts: iptables},
	{id: "F1", what: "the order of rules and foreign rules among them are ignored",
		plant: guarding(f1presence), opts: iptables},
	{id: "F2", what: "the other flavour's rules stay", plant: guarding(f2), opts: iptables},
	{id: "F3", what: "chains are emptied before they are filled", plant: guarding(f3), opts: iptables},
	{id: "F3", what: "a refused change of rules counts as made", plant: guarding(f3silent), opts: iptables},
	{id: "T1", what: "failed renewals back off to a minute", plant: living(slowing), often: outages},
	{id: "T2", what: "every hint puts the next look back", plant: living(distracted), often: storms},
	{id: "T3", what: "a stale restart is never fenced", plant: living(neverFenced), often: staleStarts},
	{id: "T4", what: "a store that went back is waited for", plant: living(backward), often: restores},
	{id: "T5", what: "the subnet file comes before the address", plant: living(hasty)},
	{id: "T6", what: "a dispute never ends", plant: living(resentful), last: disputes},
	{id: "T7", what: "a change of the store waits for the next full look", plant: living(unhurried)},
	{id: "T8", what: "a running node is never fenced by its clock", plant: living(neverExpired), often: outages},
	{id: "T9", what: "a lease is renewed shortly before it ends", plant: living(lastMinute), often: idleness},
	{id: "T10", what: "hints are ignored", plant: living(hintless), often: lostDevices},
	{id: "T11", what: "every other snapshot is missed", plant: seeing(skipping), often: moves},
	{id: "T12", what: "the firewall is read only after a hint", plant: living(sleepyGuard), opts: nftables,
		often: deafness},
	{id: "T13", what: "a node writes its record again when a peer has written its own", plant: living(echoing)},
	{id: "C1", what: "a node is ready as soon as it holds a lease", plant: living(readyTooEarly)},
	{id: "C2", what: "a node is ready while the datastore does not answer", plant: living(readyWithoutStore),
		often: outages},
	{id: "C3", what: "a removed subnet file stays removed", plant: living(blindToFile), often: lostFiles},
	{id: "C4", what: "the newest address of the uplink is published", plant: acting(restless),
		opts: search.Options{Family: "v4"}, often: seconds},
	{id: "L1", what: "neighbour entries of departed peers stay", plant: acting(leaving(neighbours)), often: leavers},
	{id: "L2", what: "FDB entries of departed peers stay", plant: acting(leaving(forwarding)), often: leavers},
	{id: "L3", what: "the address of the former subnet stays", plant: acting(leaving(addresses)), often: takeovers},
	{id: "L4", what: "IPv6 routes are never deleted", plant: acting(leaving(routes6)),
		opts: search.Options{Family: "dual"}, often: takeovers},
	{id: "L6", what: "next hops of departed peers stay", plant: acting(leaving(nextHops)),
		opts: search.Options{Backend: "host-gw", Family: "v4"}, often: takeovers},
	{id: "L5", what: "a departed peer is served forever", plant: seeing(keeping), often: leavers},
	{id: "K1", what: "peers that the datastore lost are removed", plant: seeing(oneLeft), often: wipes},
	{id: "K2", what: "a config of no use hides the peers", plant: seeing(hiding), often: badConfigs},
	{id: "W1", what: "a peer's first endpoint stays", plant: acting(believing(oldEndpoint, wgPeer)), opts: wireguard,
		often: moves},
	{id: "W2", what: "a peer's first allowed IPs stay", plant: acting(believing(oldAllowed, wgPeer)), opts: wireguard,
		often: takeovers},
	{id: "W3", what: "peers get no pre-shared key", plant: acting(believing(noPSK, wgPeer)), opts: wireguard},
	{id: "W4", what: "peers get no keepalive", plant: acting(believing(noKeepalive, wgPeer)), opts: wireguard},
	{id: "W5", what: "WireGuard peers of departed nodes stay", plant: acting(leaving(encrypted)), opts: wireguard,
		often: takeovers},
	{id: "I1", what: "no policy blocks what no tunnel carries", plant: acting(unblocked), opts: ipsec},
	{id: "I2", what: "the tunnel of a policy keeps its first ends", plant: acting(believing(oldTunnel, policy)),
		opts: ipsec, often: moves},
	{id: "I3", what: "policies of departed nodes stay", plant: acting(leaving(protecting)), opts: ipsec, often: takeovers},
	{id: "I4", what: "connections of departed nodes stay", plant: agreeing(leaving(connections)), opts: ipsec,
		often: takeovers},
	{id: "I5", what: "a tunnel that is lost goes unnoticed", plant: agreeing(trusting), opts: ipsec, often: keyless},
	{id: "G1", what: "a provider's tables are read only once", plant: routing(p1), opts: clouds, often: entries},
	{id: "G2", what: "whose the route of the own subnet is does not count", plant: routing(indifferent), opts: clouds,
		often: entries},
	{id: "G3", what: "entries of other instances are deleted", plant: routing(greedy), opts: clouds, often: entries},
	{id: "G4", what: "routes of former subnets stay in the tables", plant: routing(leaving(formerRoutes)), opts: clouds,
		often: entries},
	{id: "G5", what: "a route that the provider refuses counts as made", plant: routing(satisfied), opts: clouds,
		often: refusing},
	{id: "X1", what: "a tunnel keeps its first local address", plant: acting(believing(oldLocal, device)), opts: ipip,
		often: moves},
	{id: "X2", what: "a tunnel has the MTU of the uplink", plant: acting(believing(wholeMTU, device)), opts: ipip},
	{id: "X3", what: "the route to a peer keeps its first next hop", plant: acting(believing(oldHop, hop)), opts: ipip,
		often: moves},
	{id: "X4", what: "routes to peers lack onlink", plant: acting(believing(noOnLink, hop)), opts: ipip},
	{id: "X5", what: "routes to departed peers stay", plant: acting(leaving(hops)), opts: ipip, often: takeovers},
	{id: "O1", what: "commands of departed peers are not undone", plant: commanding(leaving(serving)), opts: extension,
		often: takeovers},
	{id: "O2", what: "a peer's command keeps its first data", plant: commanding(believing(oldData, forPeer)),
		opts: extension, often: moves},
	{id: "O3", what: "a failed command counts as done", plant: content, opts: extension, often: failures},
	{id: "O4", what: "commands that a former run left are not seen", plant: commanding(unaware), opts: extension,
		often: leavers},
	{id: "O5", what: "commands do not run again when they are due", plant: commanding(once), opts: extension,
		often: unrouted},
	{id: "B3", what: "devices of a previous backend stay", plant: acting(clinging), opts: onVXLAN, last: changes},
	{id: "H1", what: "records of peers open devices", plant: opening(vxlanOf), opts: hostile},
	{id: "H2", what: "peers without a handshake get packets in the clear", plant: acting(talkative), opts: hostile},
	{id: "H3", what: "the route for the whole network leads past an encrypting device", plant: acting(uncaught),
		opts: hostile},
	{id: "H4", what: "a device that does not encrypt outlasts a change", plant: acting(clinging), opts: onVXLANHostile,
		last: sealing},
	{id: "Q1", what: "a node takes a lease beside the one that it holds", plant: living(hoarding), often: idleness,
		opts: search.Options{Family: "v4"}},
	{id: "N1", what: "a network writes rules about another one's packets", plant: meddling,
		opts: search.Options{Networks: true, Firewall: "iptables", Family: "v4"}},
	{id: "N2", what: "a network runs beside another one with which it collides", opts: search.Options{Networks: true},
		plant: ofGreen(func(c daemon.Requester) daemon.Requester { return unheeding{c} })},
	{id: "N3", what: "a network stays refused when the collision has ended", opts: search.Options{Networks: true},
		plant: ofGreen(func(c daemon.Requester) daemon.Requester { return nagging{c, new(error)} })},
	{id: "D1", what: "a difference leaves out routes", plant: living(routeless)},
	{id: "D2", what: "a difference stays after it is closed", plant: living(unforgetting)},
	{id: "D3", what: "a difference of the packet filter stays", plant: living(unforgettingFilter), opts: nftables},
	{id: "D4", what: "a node says too early that it has programmed a revision",
		plant: living(func(n daemon.Machine) daemon.Machine { return boasting{n} })},
	{id: "R1", what: "a peer that has once answered probes counts as reached", plant: living(persisting(probe.Well)),
		opts: search.Options{Backend: "vxlan", Family: "v4"}},
	{id: "R2", what: "a peer that once was silent counts as unreachable", plant: living(persisting(probe.Unreachable)),
		opts: search.Options{Backend: "vxlan", Family: "v4"}},
	{id: "R3", what: "trace takes a neighbour that the kernel asks for as missing", trace: strict},
	{id: "R4", what: "trace shows objects that the host had once", trace: rememberingView},
	{id: "R5", what: "trace supposes routes that the host lacks", trace: supposing, last: refusals,
		opts: search.Options{Backend: "vxlan", Family: "v4"}},
	{id: "U1", what: "the bridge of the pods becomes the uplink", plant: acting(bridgeless), last: defaultOfPods,
		opts: onVXLAN},
	{id: "U2", what: "an uplink that lost its address once is not seen again", plant: acting(unforgiving),
		last: otherNIC, opts: onVXLAN},
	{id: "U3", what: "a node is ready while another program undoes its repairs", last: rivals, opts: onVXLAN,
		plant: living(func(n daemon.Machine) daemon.Machine { return uncontested{n} })},
	{id: "-", what: "a restart takes any free subnet", plant: living(forgetful), opts: search.Options{Family: "v4"}},
	{id: "-", what: "a node that never waits", plant: living(impatient)},
}

// These are the options of a search for defects of firewall rules.
var (
	iptables = search.Options{Firewall: "iptables"}
	nftables = search.Options{Firewall: "nftables"}
)

// onVXLAN is the option of a search for defects of a change of the backend.
var onVXLAN = search.Options{Backend: "vxlan", Family: "v4", Firewall: "none"}

// wireguard is the option of a search for defects of that backend.
var wireguard = search.Options{Backend: "wireguard", Family: "v4"}

// These steps expose a defect when they are drawn often enough: N is a node, M
// another one, #N the last byte of N's address.
var (
	takeovers = []search.Step{
		{Line: "fault N cut"}, {Line: "store take N by=192.168.64.99"}, {Line: "fault N cut heal"},
	}
	keyless       = []search.Step{{Line: "fault N ike keyless=M"}}
	moves         = []search.Step{{Line: "fault N uplink address=192.168.64.10#N"}}
	unheard       = []search.Step{{Line: "fault N hints chance=1"}, {Line: "fault N flush neigh flannel.1"}}
	shadows       = []search.Step{{Line: "fault N shadow M via=192.168.64.253"}}
	foreignRoutes = []search.Step{{Line: "fault N add", Input: "route 10.5.1.16/28 via 192.168.64.253 dev eth0 proto 4"}}
	leavers       = []search.Step{
		{Line: "store put subnets/10.5.3.0-24",
			Input: `{"PublicIP":"192.168.64.99","PublicIPv6":null,` +
				`"BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"02:00:00:00:00:99"}}`},
		{Line: "kill N"}, {Line: "store delete subnets/10.5.3.0-24"},
	}
	lostDevices = []search.Step{
		{Line: "fault N link flannel.1 delete"}, {Line: "fault N link flannel-v6.1 delete"},
		{Line: "fault N link flannel0 delete"},
	}
	deafness = []search.Step{
		{Line: "fault N hints chance=1"}, {Line: "fault N firewall flush-ruleset"}, {Line: "fault N hints chance=0"},
	}
	wipes       = []search.Step{{Line: "store wipe"}, {Line: "pass 20s"}}
	badConfigs  = []search.Step{{Line: "store config", Input: "}garbage{"}, {Line: "store merge", Input: "{}"}}
	idleness    = []search.Step{{Line: "pass 1m"}}
	lostFiles   = []search.Step{{Line: "fault N file subnet gone"}, {Line: "pass 1m"}}
	seconds     = []search.Step{{Line: "fault N add", Input: "addr 192.168.64.77/24 dev eth0"}, {Line: "pass 1m"}}
	outages     = []search.Step{{Line: "store stop"}, {Line: "pass 40s"}, {Line: "store start"}}
	storms      = []search.Step{{Line: "fault N hints every=100ms for=3m"}, {Line: "pass 2m"}}
	staleStarts = []search.Step{
		{Line: "fault N cut"}, {Line: "kill N"}, {Line: "pass 40s"}, {Line: "start N"}, {Line: "pass 5s"},
	}
	disputes = repeated(6, search.Step{Line: "store clobber N", Input: "?"}, search.Step{Line: "pass 12m"})
	restores = []search.Step{{Line: "store lose-data"}, {Line: "heal"}}
	detour   = []search.Step{
		{Line: "fault N add", Input: "route 192.168.64.#M/32 via 192.168.64.253 dev eth0 proto 4"},
		{Line: "restart N"},
		{Line: "fault N remove", Input: "route 192.168.64.#M/32 via 192.168.64.253 dev eth0 proto 4"},
	}
)

// repeated returns steps that are done so many times, after a heal.
func repeated(times int, steps ...search.Step) []search.Step {
	all := []search.Step{{Line: "heal"}}
	for range times {
		all = append(all, steps...)
	}
	return all
}

// plan draws a seed's plan, with more of the exposing steps. Those need all nodes
// on one segment.
func (d defect) plan(seed uint64) search.Plan {
	opts := d.opts
	if len(d.often)+len(d.last) == 0 {
		return search.Draw(seed, opts)
	}
	opts.Segments = 1
	p := search.Draw(seed, opts)
	rng := rand.New(rand.NewPCG(seed, 0x9a47))
	n := rng.IntN(p.Nodes)
	m := (n + 1 + rng.IntN(p.Nodes-1)) % p.Nodes
	names := strings.NewReplacer("#N", fmt.Sprint(n+1), "#M", fmt.Sprint(m+1), "N", fmt.Sprintf("n%d", n+1), "M",
		fmt.Sprintf("n%d", m+1))
	step := func(s search.Step) search.Step {
		s.Line = names.Replace(s.Line) + " may-fail"
		if strings.HasPrefix(s.Input, "route") || strings.HasPrefix(s.Input, "addr") {
			s.Input = names.Replace(s.Input)
		}
		s.After = time.Duration(rng.Int64N(int64(10 * time.Second))).Round(time.Millisecond)
		return s
	}
	for range min(len(d.often), 1) * (3 + rng.IntN(6)) {
		p.Steps = slices.Insert(p.Steps, 1+rng.IntN(len(p.Steps)), step(d.often[rng.IntN(len(d.often))]))
	}
	for _, s := range d.last {
		p.Steps = append(p.Steps, step(s))
	}
	return p
}

// planted returns the defect for one run. A kernel of trace has it as long as the run lasts.
func (d defect) planted() simworld.Defect {
	if d.trace == nil {
		return simworld.Defect{Daemon: d.plant()}
	}
	kernels := map[string]trace.Kernel{}
	return simworld.Defect{Trace: func(node string, k trace.Kernel) trace.Kernel {
		if kernels[node] == nil {
			kernels[node] = d.trace(k)
		}
		return kernels[node]
	}}
}

// caught says how a defect was found.
type caught struct {
	seed uint64
	took time.Duration
	how  string
}

// hunt runs one seed after the other until the defect shows. The healthy daemon
// must pass the same plan, which proves that the defect caused the failure.
func (d defect) hunt(t *testing.T) caught {
	began := time.Now()
	for seed := uint64(1); seed <= most; seed++ {
		r := search.Run(d.plan(seed), d.planted())
		if r.Failed == "" {
			continue
		}
		if healthy := search.Run(d.plan(seed)); healthy.Failed != "" {
			t.Errorf("seed %d fails without the defect too: %s", seed, healthy.Failed)
			continue
		}
		return caught{seed, time.Since(began), r.Failed}
	}
	t.Errorf("%s (%s) hid from %d seeds", d.id, d.what, most)
	return caught{}
}

// by names the invariant or the oracle, without times and nodes.
func (c caught) by() string {
	if _, rest, ok := strings.Cut(c.how, `invariant "`); ok {
		name, _, _ := strings.Cut(rest, `"`)
		return name
	}
	for _, agreeing := range []string{"probes agree", "trace agree"} {
		if strings.HasPrefix(c.how, agreeing) {
			return agreeing
		}
	}
	verb, _, _ := strings.Cut(c.how, " ")
	return strings.TrimSuffix(verb, ":") + " after the heal"
}

// manual is the document with the table of all defects, which begins with tableHead.
const (
	manual    = "../../docs/simulation.md"
	tableHead = "| Defect | What is broken | Caught by |\n|---|---|---|\n"
)

// writeManual writes the table of the manual again, by how the defects were found.
func writeManual(t *testing.T, found []caught) {
	t.Helper()
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	before, table, _ := strings.Cut(string(text), tableHead)
	_, after, _ := strings.Cut(table, "\n\n")
	var rows strings.Builder
	for i, d := range defects {
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", d.id, d.what, found[i].by())
	}
	if after != "" {
		after = "\n" + after
	}
	if err := os.WriteFile(manual, []byte(before+tableHead+rows.String()+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestManualNamesEveryDefect checks that docs/simulation.md lists every defect.
func TestManualNamesEveryDefect(t *testing.T) {
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, d := range defects {
		want = append(want, fmt.Sprintf("| %s | %s |", d.id, d.what))
	}
	_, table, _ := strings.Cut(string(text), tableHead)
	for line := range strings.Lines(table) {
		if cells := strings.SplitAfter(line, "|"); len(cells) > 3 {
			got = append(got, strings.Join(cells[:3], ""))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table of docs/simulation.md (-want +got):\n%s", diff)
	}
}

// TestPlanted checks that the search finds every defect. With UPDATE=1 it writes the table of the manual again, unless
// -run leaves defects out. It does not compare the checks that the table names: a change of the node or of the draw may
// let another check be the first.
func TestPlanted(t *testing.T) {
	found := make([]caught, len(defects))
	t.Run("defects", func(t *testing.T) {
		for i, d := range defects {
			t.Run(d.id, func(t *testing.T) {
				t.Parallel()
				found[i] = d.hunt(t)
				t.Logf("%s: seed %d: %s", d.what, found[i].seed, found[i].how)
			})
		}
	})
	var b strings.Builder
	b.WriteString("\n| defect | what is broken | caught by | seed |\n|---|---|---|---|\n")
	for i, d := range defects {
		fmt.Fprintf(&b, "| %s | %s | %s | %d |\n", d.id, d.what, found[i].by(), found[i].seed)
	}
	t.Log(b.String())
	whole := !slices.ContainsFunc(found, func(c caught) bool { return c.how == "" })
	if os.Getenv("UPDATE") != "" && whole {
		writeManual(t, found)
	}
}
