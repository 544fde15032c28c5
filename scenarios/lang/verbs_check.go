package lang

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/check"
)

// check performs
//
//	check n1 [n2] topic=port level=failure [within=30s]
//
// It waits until flannelctl check on n1 has a finding with that topic and level, which must
// name n2 if it is given. The findings are those about the ports of the backend and about peers.
func (s *Session) check(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	var topic, level string
	within := settleBound
	a.text("topic", &topic)
	a.text("level", &level)
	a.duration("within", &within)
	words := a.rest()
	if err := a.done(); err != nil {
		return "", err
	}
	if len(words) < 1 || len(words) > 2 || topic == "" || level == "" {
		return "", errors.New("want one node, perhaps a peer, a topic and a level")
	}
	return "", s.until(within, func() error {
		facts, err := s.checkFacts(words[0])
		if err != nil {
			return err
		}
		peer, err := s.peerNamed(facts.Peers, words[1:])
		if err != nil {
			return err
		}
		var others []string
		for _, f := range facts.Findings() {
			if f.Topic == topic && string(f.Level) == level && strings.Contains(f.Text, peer) {
				return nil
			}
			if f.Topic == topic || f.Topic == "peers" {
				others = append(others, fmt.Sprintf("%s %s: %s", f.Level, f.Topic, f.Text))
			}
		}
		return fmt.Errorf("%s finds no %s of %s about %q, but %q", words[0], level, topic, peer, others)
	})
}

// checkFacts returns what flannelctl check would know about a node's peers.
func (s *Session) checkFacts(name string) (*check.Facts, error) {
	n, err := s.world.Node(name)
	if err != nil {
		return nil, err
	}
	observer, err := able[PeerObserver](s, n)
	if err != nil {
		return nil, err
	}
	host, err := able[TraceHost](s, n)
	if err != nil {
		return nil, err
	}
	kernel, done, err := host.Kernel(context.Background())
	if err != nil {
		return nil, err
	}
	defer done()
	view, err := kernel.View(context.Background(), nil)
	if err != nil {
		return nil, err
	}
	_, network, err := s.backend()
	if err != nil {
		return nil, err
	}
	f := &check.Facts{Network: &network, Host: view.Host, Firewall: view.Firewall, Chains: dataplane.NewState()}
	status, err := n.Status()
	if err != nil {
		return nil, err
	}
	f.Status = &status
	f.Peers, err = observer.Peers()
	return f, err
}

// peerNamed returns the address of the peer that a node's name selects; empty: none is named.
func (s *Session) peerNamed(peers []node.Peer, names []string) (string, error) {
	if len(names) == 0 {
		return "", nil
	}
	for _, p := range peers {
		owner := s.owner(lease.Lease{Key: p.Subnet, Attrs: lease.Attrs{PublicIP: p.PublicIP, PublicIPv6: p.PublicIP6}})
		if owner == names[0] {
			return p.PublicIP.String(), nil
		}
	}
	return "", fmt.Errorf("knows no peer %s among %d", names[0], len(peers))
}
