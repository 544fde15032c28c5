package lang

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/scenarios/check/oracle"
)

// Session replays one scenario on one world.
type Session struct {
	build     func(Topology) (World, error)
	WorldName string
	top       Topology
	world     World
	started   map[string]bool           // false: the checks do not count on the daemon
	halted    map[string]bool           // of these: it counts again once it resumes
	noted     map[string]string         // subnets as of the last "remember"
	moved     map[hostFamily]netip.Addr // underlay addresses that were changed
	mtus      map[string]int            // and underlay MTUs
	config    string                    // the network config in force
	network   config.Network            // the same, parsed
	configErr error                     // why it is unusable; nil: it is usable
	formerly  []string                  // the network configs before it
	backup    backup                    // the last "store backup"
	families  []cidr.Family             // those of the topology that the config has switched on
	streams   map[string]func() (sent, lost int, err error)
	undo      map[string]func() error // heals each lasting fault
	kept      map[string][]byte       // files as of the last "keep"
	foreign   map[string]string       // other programs' rules as of the last "foreign-rules n1 remember"
	doubled   map[string]bool         // nodes whose name two machines used
	// endpointsSeen names nodes whose host has held all that its records demand since the present settle began.
	endpointsSeen map[string]bool
	// stateLost names nodes whose state file a fault has spoilt since they last settled.
	stateLost map[string]bool
	forgeries []lease.Lease // records that other programs have written
	Skipped   []string      // blocks for another world
	// Performed counts the directives that this world performed.
	Performed int
	rec       *Witness // nil: no report is wanted
	sniffing  func() (Sniffed, error)

	members  []*Session // of a topology with several networks: one for each
	absent   bool       // of a member: the datastore holds no config of its network
	siblings []*Session // of a member: all members

	nextHops string // always or never, as ForceNextHops says; empty: the topology decides
}

// NewSession returns a session that builds its world at the first topology.
func NewSession(world string, build func(Topology) (World, error)) *Session {
	return &Session{
		build:     build,
		WorldName: world,
		started:   map[string]bool{},
		halted:    map[string]bool{},
		noted:     map[string]string{},
		moved:     map[hostFamily]netip.Addr{},
		mtus:      map[string]int{},
		streams:   map[string]func() (int, int, error){},
		undo:      map[string]func() error{},
		kept:      map[string][]byte{},
		foreign:   map[string]string{},
		doubled:   map[string]bool{},

		endpointsSeen: map[string]bool{},
		stateLost:     map[string]bool{},
	}
}

// verb performs one directive and returns what it prints.
type verb func(*Session, *datadriven.TestData) (string, error)

// verbs is the vocabulary.
func verbs() map[string]verb {
	return map[string]verb{
		"topology": (*Session).topology,
		"start":    (*Session).start,
		"stop":     daemonVerb(func(_ *Session, n Node) error { return n.Stop() }, (*Session).ends),
		"kill":     daemonVerb(func(_ *Session, n Node) error { return n.Kill() }, (*Session).ends),
		"pause":    daemonVerb(pause, (*Session).halts),
		"resume":   daemonVerb(resume, (*Session).resumes),
		"restart":  (*Session).restart,
		"settle":   (*Session).settle,
		"wait":     (*Session).wait,
		"pass":     (*Session).pass,
		"ping":     (*Session).ping,
		"cross":    (*Session).cross,
		"mtu":      (*Session).mtu,
		"spoof":    (*Session).spoof,
		"forge":    (*Session).forge,
		"received": (*Session).received,
		"drops":    (*Session).drops,
		"probes":   (*Session).probes,
		"metric":   (*Session).metric,
		"trace":    (*Session).trace,
		"diff":     (*Session).diff,
		"check":    (*Session).check,
		"transfer": (*Session).transfer,
		"stream":   (*Session).stream,
		"fault":    (*Session).fault,
		"heal":     (*Session).heal,
		"store":    (*Session).store,
		"leases":   (*Session).leases,
		"remember": (*Session).remember,
		"subnet":   (*Session).subnet,
		"state":    (*Session).state,
		"log":      (*Session).log,
		"sniff":    (*Session).sniff,

		"foreign-rules": (*Session).foreignRules,
	}
}

// VerbNames lists the vocabulary.
func VerbNames() []string { return sortedKeys(verbs()) }

// Run performs one directive. Errors become output: a scenario may expect them.
func (s *Session) Run(d *datadriven.TestData) string {
	if s.rec != nil {
		return s.rec.step(d)
	}
	return s.run(d)
}

func (s *Session) run(d *datadriven.TestData) string {
	if only, ok := onlyFor(d); ok && !s.plays(only) {
		s.Skipped = append(s.Skipped, fmt.Sprintf("%s: %s is for %s only", d.Pos, d.Cmd, only))
		return d.Expected
	}
	s.Performed++
	if s.members != nil {
		return s.runMembers(d)
	}
	v, known := verbs()[d.Cmd]
	if !known {
		return fmt.Sprintf("error: unknown verb %q; known are %s\n", d.Cmd, strings.Join(sortedKeys(verbs()), ", "))
	}
	if s.world == nil && d.Cmd != "topology" {
		return "error: a scenario begins with a topology\n"
	}
	out, err := v(s, d)
	s.tellJudge(d)
	if err != nil && mayFail(d) {
		return "ok\n"
	}
	if err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	if out == "" {
		return "ok\n"
	}
	return strings.TrimRight(out, "\n") + "\n"
}

// tellJudge tells a world that judges deadlines which directive was performed and
// which faults are in force.
func (s *Session) tellJudge(d *datadriven.TestData) {
	judge, judges := s.world.(DeadlineJudge)
	if !judges {
		return
	}
	words := []string{d.Cmd}
	for _, a := range d.CmdArgs {
		words = append(words, a.String())
	}
	judge.Directed(words, s.faults(), func(name string) (oracle.Host, error) {
		n, err := s.world.Node(name)
		if err != nil {
			return oracle.Host{}, err
		}
		return s.host(name, n)
	})
}

// plays reports whether a block that is marked for one world is for this session's. The
// namespaces of a virtual machine are the same world on another kernel.
func (s *Session) plays(only string) bool {
	return only == s.WorldName || only == "netns" && s.WorldName == "vm"
}

func onlyFor(d *datadriven.TestData) (world string, ok bool) {
	for _, a := range d.CmdArgs {
		if a.Key == "only" && len(a.Vals) == 1 {
			return a.Vals[0], true
		}
	}
	return "", false
}

// mayFail reports whether a directive has the mark may-fail: a randomly drawn
// fault may find nothing to break.
func mayFail(d *datadriven.TestData) bool {
	return slices.ContainsFunc(d.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == "may-fail" })
}

// World returns the session's world, nil before the topology.
func (s *Session) World() World {
	if w, ok := s.world.(*watchedWorld); ok {
		return w.World
	}
	return s.world
}

// Close ends streams and the world.
func (s *Session) Close() error {
	if s.sniffing != nil {
		if _, err := s.sniffing(); err != nil {
			return fmt.Errorf("sniff: %w", err)
		}
	}
	for _, name := range sortedKeys(s.streams) {
		if _, _, err := s.streams[name](); err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
	if s.world == nil {
		return nil
	}
	return s.world.Close()
}

func (s *Session) topology(d *datadriven.TestData) (string, error) {
	if s.world != nil {
		return "", fmt.Errorf("there is a topology already")
	}
	top, err := parseTopology(d)
	if err != nil {
		return "", err
	}
	s.forceNextHops(&top, d)
	s.top = top
	s.setConfig(top.Config)
	world, err := s.build(top)
	if err != nil {
		return "", err // world may hold a nil pointer, which is no nil interface
	}
	s.world = world
	return "", s.addMembers()
}

// setConfig notes the network config in force, and the families that it switches on.
func (s *Session) setConfig(text string) {
	if s.config != "" && s.config != text && !slices.Contains(s.formerly, s.config) {
		s.formerly = append(s.formerly, s.config)
	}
	s.config = text
	s.network, s.configErr = config.Parse([]byte(text))
	if s.configErr != nil {
		return // this happens in scenarios about a config that never was usable
	}
	off := func(f cidr.Family) bool { return !s.network.Of(f).Enabled() }
	s.families = slices.DeleteFunc(slices.Clone(s.top.Families), off)
}

// nodes expands "all" and checks the names.
func (s *Session) nodes(names []string) ([]string, error) {
	all := s.top.NodeNames()
	if len(names) == 0 || len(names) == 1 && names[0] == "all" {
		return all, nil
	}
	for _, n := range names {
		if !slices.Contains(all, n) {
			return nil, fmt.Errorf("no node %q; there are n1 to n%d", n, s.top.Nodes)
		}
	}
	return names, nil
}

// each calls do for each node that the words name.
func (s *Session) each(words []string, do func(name string, n Node) error) error {
	names, err := s.nodes(words)
	if err != nil {
		return err
	}
	for _, name := range names {
		n, err := s.world.Node(name)
		if err != nil {
			return err
		}
		if err := do(name, n); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// settleBound is the time that a world has to settle, by default.
const settleBound = 30 * time.Second

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
