package lang

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
)

// Topology describes the world that a scenario begins with.
type Topology struct {
	Nodes       int
	Segments    int
	Config      string // the network config, JSON
	Kube        bool   // leases are on Kubernetes nodes
	Families    []cidr.Family
	MTU         int           // of the underlay, bytes
	NoIPv6      []string      // nodes whose kernel has no IPv6
	NoWireGuard []string      // nodes whose kernel has no WireGuard
	NAT         []string      // nodes that publish the address of a router in front of them (--public-ip)
	TTL         time.Duration // of leases; 0: the daemon's default
	ExitOnLoss  bool
	Firewall    string        // "iptables" or "nftables": --ip-masq, forward rules and a host outside; "none"
	Blackhole   bool          // --ip-blackhole-route
	IPForward   bool          // --ip-forward
	NoExtension bool          // without --allow-extension, though any program may write the datastore
	NextHops    int           // --next-hop-objects; 0: never
	Probes      time.Duration // --probe-interval; 0: the simulator's daemons send no probes, others have their default
	NoProbes    bool          // no daemon sends any
	// Some faults need a datastore with users, who must authenticate, or with a
	// proxy in front that loses messages. The simulator's datastore has both.
	Users, Proxy bool
	Servers      int // flannel servers, from which the nodes get their leases; 0: they use the datastore

	Networks []NamedNetwork // that each daemon runs; nil: the one without a name
	Network  string         // the name of the one that Config is about
	Watch    bool           // the daemons follow which networks the datastore holds (--watch-networks)
	Apart    bool           // each network has a daemon of its own, which knows nothing of the others
}

// parseTopology reads
//
//	topology nodes=3 backend=vxlan [segments=2] [families=dual] [network=10.5.0.0/16] [subnetlen=24] [mtu=1500]
//		[noipv6=n1,n2] [nowireguard=n1,n2] [nat=n1,n2] [ttl=10s] [onloss=exit] [firewall=iptables]
//		[blackhole=yes] [ipforward=yes] [allowextension=no] [probes=2s|never] [nexthops=1]
//		[store=users|proxy|kube] [servers=2]
//		[networks=blue:vxlan,green:udp [watch=yes]]
//
// Its input, if there is one, is the network config's Backend object. Without input, the
// object has only the required options.
func parseTopology(d *datadriven.TestData) (Topology, error) {
	t := Topology{Nodes: 2, Segments: 1, MTU: 1500, Families: []cidr.Family{cidr.V4}}
	conf := configText{Network: "10.5.0.0/16"}
	backend := "vxlan"
	args := newArgs(d)
	t.parseNumbers(args)
	args.list("noipv6", &t.NoIPv6)
	args.list("nowireguard", &t.NoWireGuard)
	args.list("nat", &t.NAT)
	args.duration("ttl", &t.TTL)
	t.parseProbes(args)
	args.text("backend", &backend)
	args.text("network", &conf.Network)
	args.integer("subnetlen", &conf.SubnetLen)
	families := "v4"
	args.text("families", &families)
	onLoss := "reacquire"
	args.text("onloss", &onLoss)
	t.ExitOnLoss = onLoss == "exit"
	if err := t.parseFirewall(args, &conf); err != nil {
		return t, err
	}
	several := t.readNetworks(args)
	store := ""
	if args.text("store", &store) && store != "users" && store != "proxy" && store != "kube" {
		return t, fmt.Errorf("store=%s: want users, proxy or kube", store)
	}
	t.Users = store == "users"
	t.Proxy = store == "proxy"
	t.Kube = store == "kube"
	if t.Servers > 0 && (t.Kube || several != nil) {
		return t, errors.New("servers: want leases in etcd, and one network")
	}
	if err := args.done(); err != nil {
		return t, err
	}
	if unknown := slices.DeleteFunc(slices.Concat(t.NoIPv6, t.NoWireGuard, t.NAT), t.hasNode); len(unknown) > 0 {
		return t, fmt.Errorf("no node %s; there are n1 to n%d", strings.Join(unknown, ","), t.Nodes)
	}
	if t.NoIPv6 != nil && families != "v4" {
		return t, errors.New("noipv6: want a topology with families=v4")
	}
	switch families {
	case "v4":
		t.Families = []cidr.Family{cidr.V4}
	case "v6":
		off := false
		t.Families = []cidr.Family{cidr.V6}
		conf.EnableIPv4 = &off
		conf.Network = ""
		conf.SubnetLen = 0
		conf.EnableIPv6, conf.IPv6Network = true, "fd00:10:5::/48"
	case "dual":
		t.Families = []cidr.Family{cidr.V4, cidr.V6}
		conf.EnableIPv6, conf.IPv6Network = true, "fd00:10:5::/48"
	default:
		return t, fmt.Errorf("families=%s: want v4, v6 or dual", families)
	}
	conf.Backend = json.RawMessage(fmt.Sprintf(`{"Type":%q}`, backend))
	if spec, known := all.Find(backend); known {
		conf.Backend = json.RawMessage(spec.Example())
	}
	if in := strings.TrimSpace(d.Input); in != "" {
		conf.Backend = json.RawMessage(in)
	}
	return t, t.setConfigs(conf, several)
}

// parseProbes reads how often the daemons probe their peers.
func (t *Topology) parseProbes(args *args) {
	var often string
	if !args.text("probes", &often) {
		return
	}
	t.NoProbes = often == "never"
	if !t.NoProbes {
		args.durationOf("probes", often, &t.Probes)
	}
}

// setConfigs writes the network configs.
func (t *Topology) setConfigs(conf configText, several []string) error {
	text, err := json.Marshal(conf)
	if err != nil {
		return fmt.Errorf("network config: %w", err)
	}
	t.Config = string(text)
	return t.setNetworks(conf, several)
}

func (t *Topology) parseNumbers(args *args) {
	args.integer("nodes", &t.Nodes)
	args.integer("segments", &t.Segments)
	args.integer("mtu", &t.MTU)
	args.integer("nexthops", &t.NextHops)
	args.integer("servers", &t.Servers)
}

// configText is a network config as an operator writes it.
type configText struct {
	EnableIPv4  *bool  `json:",omitempty"`
	EnableIPv6  bool   `json:",omitempty"`
	Network     string `json:",omitempty"`
	SubnetLen   int    `json:",omitempty"`
	IPv6Network string `json:",omitempty"`

	EnableNFTables bool `json:",omitempty"`

	Backend json.RawMessage
}

// NodeNames returns n1 to nN.
func (t Topology) NodeNames() []string {
	names := make([]string, t.Nodes)
	for i := range names {
		names[i] = nodeName(i)
	}
	return names
}

func (t Topology) hasNode(name string) bool { return slices.Contains(t.NodeNames(), name) }

// nodeName returns the name of the i-th node, from 0.
func nodeName(i int) string { return "n" + strconv.Itoa(i+1) }

// Segment returns the segment of the i-th node (from 0): nodes fill the segments in order.
func (t Topology) Segment(i int) int { return i * t.Segments / t.Nodes }

// Host numbers on every segment, the same as in the lab. A node's is its own number.
const (
	RouterHost = 253
	storeHost  = 254
)

// UnderlayAddr returns the address of a host on a segment, with the segment's length.
func UnderlayAddr(f cidr.Family, segment, host int) netip.Prefix {
	if f == cidr.V4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, byte(64 + segment), byte(host)}), 24)
	}
	return netip.MustParsePrefix(fmt.Sprintf("fd00:%d::%d/64", 64+segment, host))
}

// PublicAddr returns the address that the node of that number, from 0, publishes
// if it is behind a NAT.
func PublicAddr(f cidr.Family, i int) netip.Addr {
	if f == cidr.V4 {
		return netip.AddrFrom4([4]byte{198, 51, 100, byte(i + 1)})
	}
	return netip.MustParseAddr(fmt.Sprintf("2001:db8:100::%d", i+1))
}

// HasIPv6 reports whether the underlay has IPv6 as well as IPv4.
func (t Topology) HasIPv6() bool { return slices.Contains(t.Families, cidr.V6) }
