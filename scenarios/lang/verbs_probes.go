package lang

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
)

// expectedProbes describes the results that a node's probes of its peers must have.
type expectedProbes struct {
	finding probe.Finding
	passes  int // bytes; 0: not compared
	// "yes" or "no": whether the peer's uplink answers, and whether its own probes have
	// arrived since the finding holds; empty: not compared.
	uplink, heard string
}

// probes performs
//
//	probes n1|all [n2] is=well|unreachable|mtu|tcp|icmp [passes=1350] [uplink=yes|no] [heard=yes|no] [within=30s]
//	probes agree [within=2m]
//
// It waits until the daemon, or every running one, has that finding about all its peers,
// or about the named one.
func (s *Session) probes(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	if a.flag("agree") {
		return "", s.probesAgree(a)
	}
	var want expectedProbes
	finding, within := "", settleBound
	a.text("is", &finding)
	want.finding = probe.Finding(finding)
	a.integer("passes", &want.passes)
	a.text("uplink", &want.uplink)
	a.text("heard", &want.heard)
	a.duration("within", &within)
	words := a.rest()
	if err := a.done(); err != nil {
		return "", err
	}
	if !slices.Contains(probe.Findings[1:], want.finding) {
		return "", fmt.Errorf("is=%s: want one of %v", finding, probe.Findings[1:])
	}
	if len(words) < 1 || len(words) > 2 {
		return "", errors.New("want one node or all, and perhaps a peer")
	}
	names := words[:1]
	if words[0] == "all" {
		names = s.running()
	}
	err := s.until(within, func() error {
		for _, name := range names {
			if err := s.finds(name, words[1:], want); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
	return "", err
}

// finds returns nil if a node has the expected finding about all its peers, or about the
// named one.
func (s *Session) finds(name string, only []string, want expectedProbes) error {
	observer, err := nodeWith[PeerObserver](s, name)
	if err != nil {
		return err
	}
	peers, err := observer.Peers()
	if err != nil {
		return err
	}
	seen := 0
	for _, p := range peers {
		owner := s.owner(lease.Lease{Key: p.Subnet, Attrs: lease.Attrs{PublicIP: p.PublicIP, PublicIPv6: p.PublicIP6}})
		if len(only) > 0 && owner != only[0] {
			continue
		}
		for _, way := range p.Ways {
			if err := want.compare(way); err != nil {
				return fmt.Errorf("about %s: %w", owner, err)
			}
			seen++
		}
	}
	if seen == 0 {
		return fmt.Errorf("knows no such peer among %d", len(peers))
	}
	return nil
}

func (want expectedProbes) compare(way node.Way) error {
	r := way.Probe
	if r == nil {
		return fmt.Errorf("%s is not probed", way.Subnet)
	}
	heard := r.Heard.After(r.Since)
	if r.Finding != want.finding ||
		want.passes != 0 && r.Passes != want.passes ||
		want.uplink != "" && yes(r.UplinkAnswers) != want.uplink ||
		want.heard != "" && yes(heard) != want.heard {
		return fmt.Errorf("%s is %q since %s, passes=%d uplink=%s heard=%s", way.Subnet, r.Finding,
			r.Since.Format(time.TimeOnly), r.Passes, yes(r.UplinkAnswers), yes(heard))
	}
	return nil
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
