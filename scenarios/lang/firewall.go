package lang

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// OutsideName names the host on the first segment that knows nothing of the
// overlay.
const (
	OutsideName = "outside"
	OutsideHost = 252
)

// parseFirewall reads firewall=iptables|nftables|none, blackhole=yes|no,
// ipforward=yes|no and allowextension=yes|no.
func (t *Topology) parseFirewall(a *args, conf *configText) error {
	t.Firewall = "none"
	a.text("firewall", &t.Firewall)
	blackhole := "no"
	a.text("blackhole", &blackhole)
	t.Blackhole = blackhole == "yes"
	ipForward := "no"
	a.text("ipforward", &ipForward)
	t.IPForward = ipForward == "yes"
	allowExtension := "yes"
	a.text("allowextension", &allowExtension)
	t.NoExtension = allowExtension == "no"
	conf.EnableNFTables = t.Firewall == string(dataplane.NFTables)
	if !t.Firewalled() && t.Firewall != "none" {
		return fmt.Errorf("firewall=%s: want iptables, nftables or none", t.Firewall)
	}
	return nil
}

// Firewalled reports whether the daemons make rules.
func (t Topology) Firewalled() bool {
	return t.Firewall == string(dataplane.IPTables) || t.Firewall == string(dataplane.NFTables)
}

// pingPlaces pings between pods, hosts and the outside host. The outside host
// reaches the overlay through the node that via names, by default the pod's.
func (s *Session) pingPlaces(from, to, via string, underlay bool, o PingOptions) (PingResult, error) {
	if i := s.nodeIndex(from); underlay && i >= 0 {
		o.Source = s.address(i, o.Family)
	}
	if from != OutsideName && to != OutsideName {
		return s.world.Ping(from, to, o)
	}
	if via == "" {
		via, _ = strings.CutSuffix(from, ".pod")
		if from == OutsideName {
			via, _ = strings.CutSuffix(to, ".pod")
		}
	}
	router, err := able[OutsideRouter](s, s.World())
	if err != nil {
		return PingResult{}, err
	}
	if err := router.Outward(via); err != nil {
		return PingResult{}, err
	}
	r, err := s.world.Ping(from, to, o)
	return r, errors.Join(err, router.Outward(""))
}

// nodeIndex returns the number of the node of that name, from 0, or -1.
func (s *Session) nodeIndex(name string) int {
	for i, n := range s.top.NodeNames() {
		if n == name {
			return i
		}
	}
	return -1
}

// outcome prints the fate of a packet, and names the source that the destination
// saw: "preserved" is the real sender, "n1" a host's underlay address,
// "n1.overlay" an address in its subnet (of the host or a pod).
func (s *Session) outcome(r PingResult) (string, error) {
	if !r.OK || !r.Source.IsValid() || r.Source == r.WantSource {
		return Outcome(r), nil
	}
	name, err := s.nameOf(r.Source)
	return "ok src=" + name, err
}

func (s *Session) nameOf(ip netip.Addr) (string, error) {
	f := cidr.FamilyOf(ip)
	for i, name := range s.top.NodeNames() {
		if s.address(i, f) == ip {
			return name, nil
		}
	}
	records, err := s.world.Store().Records()
	if err != nil {
		return "", err
	}
	for _, r := range records {
		if l, ok := r.lease(); ok && l.Key.Of(f).IsValid() && l.Key.Of(f).Contains(ip) {
			return s.owner(l) + ".overlay", nil
		}
	}
	return ip.String(), nil
}

// pingAllOutside pings from every pod of a running node to the outside host,
// which must see the node as the source.
func (s *Session) pingAllOutside() (string, error) {
	var bad []string
	for _, node := range s.running() {
		for _, f := range s.families {
			r, err := s.pingPlaces(node+".pod", OutsideName, "", false, PingOptions{Family: f})
			if err != nil {
				return "", err
			}
			how, err := s.outcome(r)
			if err != nil {
				return "", err
			}
			if how != "ok src="+node {
				bad = append(bad, strings.TrimSpace(fmt.Sprintf("%s: %s %s", node, how, r.Drop)))
			}
		}
	}
	if len(bad) > 0 {
		return strings.Join(bad, "\n"), nil
	}
	return "all ok src=masqueraded", nil
}

// foreignRules performs "foreign-rules n1 [remember]". It prints whether the
// rules of other programs are the "same" as remembered, or "changed".
func (s *Session) foreignRules(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	remember := a.flag("remember")
	name := a.word("node")
	if err := a.done(); err != nil {
		return "", err
	}
	n, err := s.world.Node(name)
	if err != nil {
		return "", err
	}
	filter, err := able[Firewall](s, n)
	if err != nil {
		return "", err
	}
	rules, err := filter.ForeignRules()
	switch {
	case err != nil:
		return "", err
	case remember:
		s.foreign[name] = rules
		return "", nil
	case rules != s.foreign[name]:
		return "changed", nil
	}
	return "same", nil
}
