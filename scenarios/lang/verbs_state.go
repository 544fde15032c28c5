package lang

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/scenarios/check/oracle"
)

// leases performs "leases". It prints one line for each record, by owner, with
// nothing random in it.
func (s *Session) leases(d *datadriven.TestData) (string, error) {
	if err := newArgs(d).done(); err != nil {
		return "", err
	}
	records, err := s.world.Store().Records()
	if err != nil {
		return "", err
	}
	var lines []string
	for i, r := range records {
		l, ok := r.lease()
		if !ok {
			lines = append(lines, "undecodable "+r.Name)
			continue
		}
		line := s.owner(l)
		if r.Reserved {
			line += " reservation"
		}
		for _, other := range records[:i] {
			if o, ok := other.lease(); ok && o.Key.Overlaps(l.Key) {
				line += " overlaps " + s.owner(o)
			}
		}
		lines = append(lines, line)
	}
	slices.SortFunc(lines, func(a, b string) int {
		if d := len(strings.Fields(a)[0]) - len(strings.Fields(b)[0]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return strings.Join(lines, "\n"), nil
}

// remember performs "remember": it notes every node's subnet, for "subnet" to
// compare with.
func (s *Session) remember(d *datadriven.TestData) (string, error) {
	if err := newArgs(d).done(); err != nil {
		return "", err
	}
	return "", s.each(s.running(), func(name string, _ Node) error {
		r, err := s.recordOf(name)
		s.noted[name] = r.Name
		return err
	})
}

// subnet performs "subnet n1". It prints whether the subnet in the store and in
// the subnet file is the "same" as remembered, "same IPv4" if only that half is,
// or "changed".
func (s *Session) subnet(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	name := a.word("node")
	if err := a.done(); err != nil {
		return "", err
	}
	r, err := s.recordOf(name)
	if err != nil {
		return "", err
	}
	n, err := s.world.Node(name)
	if err != nil {
		return "", err
	}
	l, _ := r.lease()
	for _, f := range s.families {
		p := l.Key.Of(f)
		if !p.IsValid() {
			continue // the config in force has this family off
		}
		if want := fmt.Sprintf("%s/%d\n", p.Addr().Next(), p.Bits()); !strings.Contains(n.SubnetFile(), want) {
			return "", fmt.Errorf("the subnet file does not hold %s:\n%s", want, n.SubnetFile())
		}
	}
	if r.Name == s.noted[name] {
		return "same", nil
	}
	noted, _ := lease.ParseKey(s.noted[name])
	for _, f := range cidr.Families {
		if p := l.Key.Of(f); p.IsValid() && p == noted.Of(f) {
			return fmt.Sprintf("same %v", f), nil
		}
	}
	return "changed", nil
}

// state performs "state n1". It prints the kernel objects that flannel owns, with
// names in place of random values: <n2> is the base of n2's subnet, <n2.mac> its
// VTEP, <n2.key> its public key. With dev=eth0 it adds the routes and permanent neighbours on that device.
func (s *Session) state(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	name, dev := a.word("node"), ""
	a.text("dev", &dev)
	if err := a.done(); err != nil {
		return "", err
	}
	n, err := s.world.Node(name)
	if err != nil {
		return "", err
	}
	extent, err := s.extent()
	if err != nil {
		return "", err
	}
	if dev != "" {
		extent.Links = append(extent.Links, dev)
	}
	k, err := able[Kernel](s, n)
	if err != nil {
		return "", err
	}
	state, err := k.State(extent)
	if err != nil {
		return "", err
	}
	state = state.Clone()
	if s.hidesNextHops() {
		state = withoutNextHops(state)
	}
	delete(state.Links, dev)
	state.Proxies = nil // the kernel knows neither proxies nor their peers
	state.Peers = dataplane.Table[dataplane.PeerKey, dataplane.Peer]{}
	state.IKE = nil // nor the objects of the IKE daemon
	state.SharedKeys = dataplane.Table[dataplane.SharedKeyKey, dataplane.SharedKey]{}
	state.FormerKeys = nil
	state.Conns = dataplane.Table[dataplane.ConnKey, dataplane.Conn]{}
	state.Tunnels = dataplane.Table[dataplane.ConnKey, dataplane.Tunnel]{}
	// The kernel gives every device a link-local route of its own, which says
	// nothing about flannel.
	state.Routes.DeleteFunc(func(k dataplane.RouteKey, _ dataplane.Route) bool {
		return k.Dst.Addr().IsLinkLocalUnicast()
	})
	names, err := s.names()
	if err != nil {
		return "", err
	}
	return substitute(state, strings.NewReplacer(names...)), nil
}

// names returns pairs of a random value and the name that replaces it.
func (s *Session) names() ([]string, error) {
	records, err := s.world.Store().Records()
	if err != nil {
		return nil, err
	}
	var pairs []string
	for _, r := range records {
		l, ok := r.lease()
		if !ok || s.isForged(l) {
			continue
		}
		owner := s.owner(l)
		if key, _, ok := oracle.WireGuardData(l); ok {
			pairs = append(pairs, key.String(), "<"+owner+".key>")
		}
		for i, suffix := range []string{"", ".v6"} {
			f := cidr.Families[i]
			if p := l.Key.Of(f); p.IsValid() {
				pairs = append(pairs, " "+p.Addr().String()+"/", " <"+owner+suffix+">/", " "+p.Addr().String()+" ",
					" <"+owner+suffix+"> ", ","+p.Addr().String()+"/", ",<"+owner+suffix+">/")
			}
			if mac := oracle.VTEPMAC(l, f); mac != "" {
				pairs = append(pairs, mac, "<"+owner+suffix+".mac>")
			}
		}
	}
	return pairs, nil
}

// substitute prints a state with names, sorted again within each kind.
func substitute(state *dataplane.State, names *strings.Replacer) string {
	lines := strings.Split(strings.TrimSpace(state.Dump()), "\n")
	kinds := map[string]int{}
	for i, l := range lines {
		kind, _, _ := strings.Cut(l, " ")
		if _, ok := kinds[kind]; !ok {
			kinds[kind] = len(kinds)
		}
		lines[i] = names.Replace(l)
	}
	slices.SortStableFunc(lines, func(a, b string) int {
		ka, _, _ := strings.Cut(a, " ")
		kb, _, _ := strings.Cut(b, " ")
		if ka != kb {
			return kinds[ka] - kinds[kb]
		}
		return strings.Compare(a, b)
	})
	return strings.Join(lines, "\n")
}

// ErrNoDaemon is the error of a question to a daemon that does not run.
var ErrNoDaemon = errors.New("no daemon runs")
