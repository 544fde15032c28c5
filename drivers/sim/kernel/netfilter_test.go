package kernel

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
)

// outside adds a host that knows nothing of the overlay.
func (l *lab) outside(t *testing.T) *Host {
	t.Helper()
	h := l.network.NewHost("outside")
	_, err := h.AddUplink("eth0", l.segment, v4("192.168.64.9/24"), v4("fd00:64::9/64"))
	must(t, err)
	return h
}

// outsideAddr returns the address of the outside host.
func outsideAddr(f cidr.Family) netip.Addr {
	return [...]netip.Addr{netip.MustParseAddr("192.168.64.9"), netip.MustParseAddr("fd00:64::9")}[f]
}

// nodeAddr returns the underlay address of a node.
func nodeAddr(f cidr.Family, number int) netip.Addr {
	return [...]netip.Prefix{v4("192.168.64.%d/24", number), v4("fd00:64::%d/64", number)}[f].Addr()
}

// installRules gives the hosts the rules that the core wants, after an optional
// change.
func (l *lab) installRules(t *testing.T, flavour dataplane.Flavour, change func(*dataplane.Chain)) {
	t.Helper()
	network := config.Network{
		V4:             config.Range{Network: v4("10.5.0.0/16")},
		V6:             config.Range{Network: v4("fd05::/48")},
		EnableNFTables: flavour == dataplane.NFTables,
	}
	options := firewall.Options{Masquerade: true, Forward: true}
	for i, h := range l.hosts {
		own := lease.Key{V4: v4("10.5.%d.0/24", i+1), V6: v4("fd05:0:0:%d::/64", i+1)}
		facts := h.FirewallFacts()
		for _, c := range firewall.Render(options, network, own, facts).Chains.Chains {
			if change != nil {
				change(&c)
			}
			must(t, h.Firewall().Apply(context.Background(), []dataplane.Op{{Verb: dataplane.Replace, Object: c}})[0])
		}
	}
}

// eachFirewall runs a test with either flavour and family.
func eachFirewall(t *testing.T, test func(t *testing.T, flavour dataplane.Flavour, f cidr.Family)) {
	for _, flavour := range dataplane.Flavours {
		for _, f := range cidr.Families {
			t.Run(fmt.Sprintf("%s %s", flavour, f), func(t *testing.T) { test(t, flavour, f) })
		}
	}
}

func wantSource(t *testing.T, p *Probe, want netip.Addr) {
	t.Helper()
	wantDelivered(t, p)
	if p.SourceSeen != want {
		t.Errorf("%s: seen as %s, want %s\npath %v", p, p.SourceSeen, want, p.Path)
	}
}

// TestMasqueradeTellsPodsApart has two pods with the same echo id: each gets
// its own reply.
func TestMasqueradeTellsPodsApart(t *testing.T) {
	for _, random := range []bool{false, true} {
		l := overlay(t, 1, 2)
		l.outside(t)
		l.installRules(t, dataplane.IPTables, func(c *dataplane.Chain) {
			if rules, err := c.Rules.List(); err == nil && !random && c.Hook == dataplane.Postrouting {
				for i := range rules[4:] {
					rules[4+i].Verdict = dataplane.Masquerade
				}
				c.Rules = dataplane.MakeRules(rules...)
			}
		})
		second, err := l.hosts[0].NewPod("second", 1430, v4("10.5.1.0/24"))
		must(t, err)
		a := l.pods[0].Ping(outsideAddr(cidr.V4), PingOptions{})
		l.network.probeID--
		b := second.Ping(outsideAddr(cidr.V4), PingOptions{})
		wantDelivered(t, l.await(t, a))
		wantDelivered(t, l.await(t, b))
	}
}

// TestErrorsFindTheirWayBack has a router beyond the node report a packet as
// too big: the error goes to the node, the masqueraded source, and so to the
// pod.
func TestErrorsFindTheirWayBack(t *testing.T) {
	for _, f := range cidr.Families {
		l := overlay(t, 1, 2)
		beyond := l.network.NewSegment("beyond")
		_, err := l.hosts[1].AddUplink("eth1", beyond, v4("172.16.0.1/24"), v4("fd00:72::1/64"))
		must(t, err)
		must(t, l.hosts[1].SetMTU("eth1", 1300))
		far := l.network.NewHost("far")
		_, err = far.AddUplink("eth0", beyond, v4("172.16.0.2/24"), v4("fd00:72::2/64"))
		must(t, err)
		must(t, far.DefaultRoute([...]netip.Addr{netip.MustParseAddr("172.16.0.1"), netip.MustParseAddr("fd00:72::1")}[f]))
		must(t, l.hosts[0].DefaultRoute(nodeAddr(f, 2)))
		l.installRules(t, dataplane.NFTables, nil)
		dst := [...]netip.Addr{netip.MustParseAddr("172.16.0.2"), netip.MustParseAddr("fd00:72::2")}[f]
		wantSource(t, l.await(t, l.pods[0].Ping(dst, PingOptions{})), nodeAddr(f, 1))
		wantDrop(t, l.await(t, l.pods[0].Ping(dst, PingOptions{Size: 1350, DF: true})), DropTooBig, "n2")
		p := l.await(t, l.pods[0].Ping(dst, PingOptions{Size: 1350, DF: true}))
		wantDrop(t, p, DropTooBig, "n1.pod") // the pod knows the path MTU now
	}
}

// TestGuardOfATunnel: the packets of a tunnel arrive from admitted hosts alone, and a drop names the chain.
func TestGuardOfATunnel(t *testing.T) {
	eachFirewall(t, func(t *testing.T, flavour dataplane.Flavour, f cidr.Family) {
		l := overlay(t, 1, 2)
		guard := func(from netip.Addr) {
			key := dataplane.ChainKey{Flavour: flavour, Family: f, Hook: dataplane.Input}
			vxlan := dataplane.Rule{Proto: dataplane.ProtoUDP, Port: 8472, Verdict: dataplane.Drop}
			admits := vxlan
			admits.From.Prefix, admits.Verdict = netip.PrefixFrom(from, f.Bits()), dataplane.Return
			c := dataplane.Chain{ChainKey: key, Jump: dataplane.Placed, Rules: dataplane.MakeRules(admits, vxlan)}
			must(t, l.hosts[1].Firewall().Apply(t.Context(), []dataplane.Op{{Verb: dataplane.Replace, Object: c}})[0])
		}
		guard(nodeAddr(f, 1))
		wantDelivered(t, l.ping(t, f, PingOptions{}))
		guard(nodeAddr(f, 3))
		p := l.ping(t, f, PingOptions{})
		wantDrop(t, p, DropFirewall, "n2")
		chain := map[dataplane.Flavour]string{dataplane.IPTables: "INPUT", dataplane.NFTables: "input"}[flavour]
		if !strings.Contains(p.String(), chain) {
			t.Errorf("%s does not name the chain %s", p, chain)
		}
		l.hosts[1].FlushRuleset()
		wantDelivered(t, l.ping(t, f, PingOptions{}))
	})
}

// TestConnectionsEnd expires connections, answered and unanswered ones.
func TestConnectionsEnd(t *testing.T) {
	l := overlay(t, 1, 2)
	l.outside(t)
	l.installRules(t, dataplane.IPTables, nil)
	for range 5 {
		wantDelivered(t, l.await(t, l.pods[0].Ping(outsideAddr(cidr.V4), PingOptions{})))
	}
	l.Run(connTime + time.Second)
	wantDelivered(t, l.await(t, l.pods[0].Ping(outsideAddr(cidr.V4), PingOptions{})))
	if c := l.hosts[0].filter.conns; len(c.byOrig) != 1 || len(c.byReply) != 1 || len(c.order) != 1 {
		t.Errorf("known are %d, %d and %d connections, want the last one", len(c.byOrig), len(c.byReply), len(c.order))
	}
}
