package lang

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// NamedNetwork is one of several networks.
type NamedNetwork struct{ Name, Config string }

// Manifold is a world whose daemons run several networks.
type Manifold interface {
	// OfNetwork returns the same hosts as the world of another network of the topology. Its nodes, pods
	// and records are those of that network; faults of hosts and of the datastore concern all.
	OfNetwork(top Topology) (World, error)
	// Cross sends an echo request from a pod of this network to a pod of the other one.
	Cross(from string, other World, to string, f cidr.Family) (PingResult, error)
}

// readNetworks reads the networks of a topology, each with the type of its backend.
func (t *Topology) readNetworks(a *args) (several []string) {
	a.list("networks", &several)
	watch := ""
	a.text("watch", &watch)
	t.Watch = watch == "yes"
	daemons := ""
	a.text("daemons", &daemons)
	t.Apart = daemons == "apart"
	return several
}

// setNetworks gives each network a config: the i-th has the i-th address space after that of a topology
// with one network, and the VNI i.
func (t *Topology) setNetworks(conf configText, several []string) error {
	for i, word := range several {
		name, backend, _ := strings.Cut(word, ":")
		spec, known := all.Find(backend)
		if !known || name == "" {
			return fmt.Errorf("networks=%s: want NAME:BACKEND", word)
		}
		own := conf
		if conf.Network != "" {
			own.Network = fmt.Sprintf("10.%d.0.0/16", 5+i)
		}
		if conf.EnableIPv6 {
			own.IPv6Network = fmt.Sprintf("fd00:10:%d::/48", 5+i)
		}
		own.Backend = json.RawMessage(spec.Example())
		if backend == "vxlan" {
			own.Backend = json.RawMessage(fmt.Sprintf(`{"Type":"vxlan","VNI":%d}`, i+1))
		}
		text, err := json.Marshal(own)
		if err != nil {
			return fmt.Errorf("config of network %s: %w", name, err)
		}
		t.Networks = append(t.Networks, NamedNetwork{name, string(text)})
	}
	if len(several) > 0 {
		t.Network, t.Config = t.Networks[0].Name, t.Networks[0].Config
	}
	return nil
}

// addMembers makes a session for each network of the topology. They share what is known of the hosts.
func (s *Session) addMembers() error {
	if s.top.Networks == nil {
		return nil
	}
	first, err := able[Manifold](s, s.world)
	if err != nil {
		return err
	}
	for i, n := range s.top.Networks {
		m := NewSession(s.WorldName, nil)
		if !s.top.Apart {
			m.started = s.started
		}
		m.moved, m.mtus = s.moved, s.mtus
		m.nextHops = s.nextHops
		m.top, m.world = s.top, s.world
		m.top.Network, m.top.Config = n.Name, n.Config
		m.setConfig(n.Config)
		if i > 0 {
			m.world, err = first.OfNetwork(m.top)
			if err != nil {
				return err
			}
		}
		s.members = append(s.members, m)
	}
	for _, m := range s.members {
		m.siblings = s.members
	}
	return nil
}

// faults names the lasting faults in force, in any network.
func (s *Session) faults() []string {
	names := sortedKeys(s.undo)
	for _, m := range s.siblings {
		if m != s {
			names = append(names, sortedKeys(m.undo)...)
		}
	}
	return names
}

// runMembers performs a directive in the network that its argument network= names, a wait for or a check of
// all in each network, and any other directive once: the networks share their hosts.
func (s *Session) runMembers(d *datadriven.TestData) string {
	words := make([]string, 0, len(d.CmdArgs))
	for _, a := range d.CmdArgs {
		words = append(words, a.Key)
	}
	if d.Cmd == "cross" {
		if _, err := s.cross(d); err != nil {
			return fmt.Sprintf("error: %v\n", err)
		}
		return "ok\n"
	}
	in := s.members[:1]
	if i := slices.Index(words, "network"); i >= 0 {
		name := strings.Join(d.CmdArgs[i].Vals, ",")
		in = slices.DeleteFunc(slices.Clone(s.members), func(m *Session) bool { return m.top.Network != name })
		if len(in) == 0 {
			return fmt.Sprintf("error: there is no network %q\n", name)
		}
		own := *d
		own.CmdArgs = slices.Delete(slices.Clone(d.CmdArgs), i, i+1)
		d = &own
	} else if slices.Contains([]string{"settle", "heal"}, d.Cmd) || slices.Contains(words, "all") &&
		slices.Contains([]string{"ping", "trace", "diff"}, d.Cmd) {
		in = s.members
	}
	outs := make([]string, 0, len(in))
	for _, m := range in {
		out := m.runMember(d, words)
		if out != "" && !slices.Contains(outs, out) {
			outs = append(outs, out)
		}
	}
	for _, m := range s.members {
		if !slices.Contains(in, m) {
			m.tellJudge(d)
		}
	}
	for _, out := range outs {
		if strings.HasPrefix(out, "error: ") {
			return out
		}
	}
	return strings.Join(outs, "")
}

// runMember performs a directive in one network. One whose config is not in the datastore has no pods, and
// settles when nothing of it is left on any host.
func (s *Session) runMember(d *datadriven.TestData, words []string) string {
	switch {
	case s.absent && d.Cmd == "settle":
		within := settleBound
		newArgs(d).duration("within", &within)
		if err := s.until(within, s.isGone); err != nil {
			return fmt.Sprintf("error: network %s has not gone within %s: %v\n", s.top.Network, within, err)
		}
		s.tellJudge(d)
		return "ok\n"
	case s.absent && (d.Cmd == "ping" || d.Cmd == "trace"):
		return ""
	}
	out := s.run(d)
	if d.Cmd == "store" && !strings.HasPrefix(out, "error: ") && len(words) > 1 {
		switch {
		case words[0] == "delete" && words[1] == "config":
			s.absent = true
		case slices.Contains([]string{"config", "merge", "end-change"}, words[0]):
			s.absent = false
		}
	}
	if message, failed := strings.CutPrefix(out, "error: "); failed {
		return fmt.Sprintf("error: network %s: %s", s.top.Network, message)
	}
	return out
}

// isGone returns an error while a host has anything of the network.
func (s *Session) isGone() error {
	extent, err := s.extent()
	if err != nil {
		return err
	}
	return s.each(s.running(), func(_ string, n Node) error {
		if file := n.SubnetFile(); file != "" {
			return errors.New("has a subnet file")
		}
		k, err := able[Kernel](s, n)
		if err != nil {
			return err
		}
		have, err := k.State(extent)
		if err != nil {
			return err
		}
		for _, name := range sortedKeys(have.Links) {
			if slices.Contains(extent.Links, name) {
				return fmt.Errorf("has the device %s", name)
			}
		}
		for _, r := range have.Routes.All {
			own := func(p netip.Prefix) bool { return cidr.Contains(p, r.Dst) }
			if r.Protocol == dataplane.Protocol && slices.ContainsFunc(extent.Networks, own) {
				return fmt.Errorf("has %q", r)
			}
		}
		return nil
	})
}

// cross performs "cross all": no pod of a network reaches a pod of another one, on any host.
func (s *Session) cross(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	a.flag("all")
	if err := a.done(); err != nil {
		return "", err
	}
	if s.members == nil {
		return "", errors.New("cross: want a topology with networks=")
	}
	for _, m := range s.members {
		for _, o := range s.members {
			if m == o || m.absent || o.absent {
				continue
			}
			if err := m.crossTo(o); err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

// crossTo sends an echo request from each pod of the network to each one of another network.
func (s *Session) crossTo(other *Session) error {
	world, err := able[Manifold](s, s.world)
	if err != nil {
		return err
	}
	for _, from := range s.running() {
		for _, to := range s.running() {
			for _, f := range s.families {
				r, err := world.Cross(from+".pod", other.world, to+".pod", f)
				if err != nil {
					return err
				}
				if r.OK || r.Source.IsValid() {
					return fmt.Errorf("a packet of network %s from %s reaches the pod of network %s on %s, as from %s",
						s.top.Network, from, other.top.Network, to, r.Source)
				}
			}
		}
	}
	return nil
}
