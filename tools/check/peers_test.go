package check

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/core/uplink"
)

// probed returns the facts of a healthy host with as many peers as results.
func probed(t *testing.T, results ...probe.Result) *Facts {
	t.Helper()
	f := healthy(t)
	f.Status = &node.Status{Probes: probe.Summary{Interval: time.Minute}}
	for i, r := range results {
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, byte(2 + i), 0}), 24)
		r.Address = subnet.Addr()
		f.Peers = append(f.Peers, node.Peer{
			Subnet: lease.Key{V4: subnet}, PublicIP: netip.AddrFrom4([4]byte{192, 168, 64, byte(2 + i)}),
			Ways: []node.Way{{Subnet: subnet, Type: "tunnel", Link: "flannel.1", Probe: &r}},
		})
	}
	return f
}

// Results of probes.
var (
	since   = time.Unix(1e9, 0)
	well    = probe.Result{Finding: probe.Well}
	cutOff  = probe.Result{Finding: probe.Unreachable, Since: since, Heard: since.Add(-time.Second)}
	barred  = probe.Result{Finding: probe.Unreachable, Since: since, UplinkAnswers: true}
	barring = probe.Result{Finding: probe.Unreachable, Since: since, UplinkAnswers: true, Heard: since.Add(time.Second)}
	oneway  = probe.Result{Finding: probe.Unreachable, Since: since, Heard: since.Add(time.Second)}
	narrow  = probe.Result{Finding: probe.SizeLost, MTU: 1450, Passes: 1350}
	noTCPs  = probe.Result{Finding: probe.TCPLost}
)

// psk is long enough for ipsec.
var psk = strings.Repeat("0123456789abcdef", 6)

func backend(name string) func(*testing.T, *Facts) {
	return func(t *testing.T, f *Facts) {
		t.Helper()
		f.configure(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"`+name+`","PSK":"`+psk+`"}}`)
	}
}

// tooNarrow is the finding about the first peer, without a remedy.
const tooNarrow = "warning mtu: 192.168.64.2 answers packets of at most 1350 bytes, pods may send 1450: the MTU of " +
	"the network between the hosts is too small for it"

// sized gives the uplink and the pods an MTU.
func sized(uplinkMTU, pods int) func(*testing.T, *Facts) {
	return func(_ *testing.T, f *Facts) {
		f.Status.Uplink, f.Status.MTU = uplink.Uplink{Link: "eth0", MTU: uplinkMTU}, pods
	}
}

func direct(_ *testing.T, f *Facts) { f.Peers[0].Ways[0].Type = "direct" }

const unanswered = " to 192.168.64.2 have no answer, nothing arrives here by it from there, and the host answers a " +
	"ping, so it is up. " + lostSomewhere +
	" # ssh 192.168.64.2 flannelctl check\n"

// probedAgo gives the last probes of each peer an age.
func probedAgo(ages ...time.Duration) func(*testing.T, *Facts) {
	return func(_ *testing.T, f *Facts) {
		f.Status.TakenAt = since.Add(time.Hour)
		for i, age := range ages {
			f.Peers[i].Ways[0].Probe.At = f.Status.TakenAt.Add(-age)
		}
	}
}

// peerCases are results of probes, and the findings about them.
var peerCases = []struct {
	name   string
	change func(*testing.T, *Facts)
	peers  []probe.Result
	want   string
}{
	{"no peers", nil, nil, ""},
	{"no daemon", func(_ *testing.T, f *Facts) { f.Status = nil }, []probe.Result{barred}, ""},
	{"all well", nil, []probe.Result{well, well},
		"ok peers: all peers that were probed answer, and UDP port 8472 is reached from each of them # \n"},
	{"well without tunnels", direct, []probe.Result{well}, "ok peers: all peers that were probed answer # \n"},
	{"not probed yet", nil, []probe.Result{{}},
		"warning peers: no peer has been probed yet, so whether they answer is not known # flannelctl ping NODE\n"},
	{"no probes", func(_ *testing.T, f *Facts) { f.Status.Probes.Interval = 0 }, []probe.Result{well},
		"warning peers: flanneld sends no probes, so whether its peers answer is not known " +
			"# flanneld --probe-interval=1m\n"},
	{"unable", func(_ *testing.T, f *Facts) { f.Status.Probes.Unable = "no socket" }, []probe.Result{well},
		"warning peers: flanneld cannot send probes, so whether its peers answer is not known: no socket " +
			"# flannelctl status\n"},
	{"the port is blocked", nil, []probe.Result{barred, well},
		"failure port: probes by UDP port 8472" + unanswered},
	{"ipip", backend("ipip"), []probe.Result{barred, well}, "failure port: probes by IP protocol 4" + unanswered},
	{"ipsec", backend("ipsec"), []probe.Result{barred, well},
		"failure port: probes by UDP ports 500 and 4500" + unanswered},
	{"silent pods, without a tunnel", direct, []probe.Result{barred, well},
		"failure peers: 192.168.64.2 does not answer at 10.5.2.0, and its uplink does: a firewall between the hosts may " +
			"block the port or protocol of the backend, or its route back is wrong # flannelctl mesh --port 8081\n"},
	{"the port is blocked there", nil, []probe.Result{well, barring},
		"warning port: probes by UDP port 8472 to 192.168.64.3 have no answer, though the probes from there arrive " +
			"here and the host answers a ping: a firewall there drops them, or one on the way, or the answers take another " +
			"way there, or another host on the segment has its address too # ssh 192.168.64.3 flannelctl check\n"},
	{"one way", nil, []probe.Result{oneway, well},
		"warning peers: packets to 192.168.64.2 are lost, and those from there arrive. " + lostSomewhere +
			" # flannelctl mesh --port 8081\n"},
	{"lost by the datastore", func(_ *testing.T, f *Facts) { f.Peers[0].Lost = true }, []probe.Result{well, well},
		"warning peers: the datastore does not hold the records of 192.168.64.2 any more, which this node serves for a " +
			"while: look at the flags --etcd-prefix and --etcd-endpoints of this flanneld, which have to be those of the " +
			"other nodes, then at whether the datastore has lost its data # flannelctl leases list\n"},
	{"hosts that are down", nil, []probe.Result{cutOff, well, cutOff},
		"warning peers: no answer from 192.168.64.2, 192.168.64.4, nor to a ping of the host, and nothing " +
			"arrives from there: it is down, or packets are lost on the way. " + lostSomewhere + " # ping 192.168.64.2\n"},
	{"all hosts are down", nil, []probe.Result{cutOff, cutOff},
		"failure peers: no answer from 192.168.64.2, 192.168.64.3, nor to a ping of the host, and nothing " +
			"arrives from there: it is down, or packets are lost on the way. " + lostSomewhere + " # ping 192.168.64.2\n"},
	{"a small MTU, and an option for it", sized(1500, 1450), []probe.Result{narrow, well},
		tooNarrow + " # flannelctl config get | jq -c '.Backend.MTU=1400' | flannelctl config set -\n"},
	{"a small MTU, and no option for it", func(t *testing.T, f *Facts) {
		t.Helper()
		sized(1500, 1500)(t, f)
		backend("host-gw")(t, f)
	}, []probe.Result{narrow, well},
		tooNarrow + " # ip link set eth0 mtu 1350 (on every node, and in the settings that it starts with)\n"},
	{"a fault that began during a probe", nil, []probe.Result{{Finding: probe.SizeLost, MTU: 1450}, well},
		"warning peers: 192.168.64.2 answered a small packet and then none of any larger size up to 1450 bytes: packets " +
			"are lost, and not for their size alone. " + lostSomewhere + " # flannelctl mesh --port 8081\n"},
	{"a small MTU and no TCP", nil, []probe.Result{narrow, noTCPs, well, narrow},
		"warning mtu: 192.168.64.2 answers packets of at most 1350 bytes, pods may send 1450: the MTU of the network " +
			"between the hosts is too small for it; the same holds for 192.168.64.5 # flannelctl ping --mtu 192.168.64.2\n" +
			"warning checksum: 192.168.64.3 answers ICMP at 10.5.3.0 and not TCP: a packet filter, or a network card that " +
			"computes wrong checksums in tunnels " +
			"# nft list ruleset; ethtool -k flannel.1\n"},
	{"no TCP without a tunnel", direct, []probe.Result{noTCPs, well},
		"warning filter: 192.168.64.2 answers ICMP at 10.5.2.0 and not TCP: a packet filter, or a network card that " +
			"computes wrong checksums in tunnels " +
			"# flannelctl ping --mtu 192.168.64.2\n"},
	{"probes of a minute ago", probedAgo(3*time.Second, 58*time.Second), []probe.Result{well, well},
		"ok peers: all peers that were probed answer, and UDP port 8472 is reached from each of them (probed 3s to 58s " +
			"ago) # \n"},
	{"a fault of some seconds ago", probedAgo(40*time.Second, time.Second), []probe.Result{oneway, well},
		"warning peers: packets to 192.168.64.2 are lost, and those from there arrive. " + lostSomewhere +
			" (probed 40s ago) # flannelctl mesh --port 8081\n"},
	{"probes of silent peers last longer than an interval", func(t *testing.T, f *Facts) {
		t.Helper()
		f.Status.Probes.Interval = time.Second
		probedAgo(9*time.Second)(t, f)
	}, []probe.Result{well},
		"ok peers: all peers that were probed answer, and UDP port 8472 is reached from each of them (probed 9s ago) # \n"},
	{"probes that are too old", probedAgo(time.Second, 4*time.Minute, 5*time.Minute), []probe.Result{well, well, barred},
		"warning peers: whether 192.168.64.3, 192.168.64.4 answers now is not known: the last probes are too old for that " +
			"(probed 4m0s to 5m0s ago) # flannelctl ping --mtu 192.168.64.3\n"},
	{"many", nil, []probe.Result{oneway, oneway, oneway, oneway, oneway, oneway, oneway, well},
		"warning peers: packets to 192.168.64.2, 192.168.64.3, 192.168.64.4, 192.168.64.5, 192.168.64.6 and 2 more are " +
			"lost, and those from there arrive. " + lostSomewhere +
			" # flannelctl mesh --port 8081\n"},
}

// lostSomewhere is the advice where no path was traced.
const lostSomewhere = "Look at the rules and routes of this host and of that one, then at firewalls and " +
	"routers on the way"

// TestPeers judges what probes have found out about the peers.
func TestPeers(t *testing.T) {
	for _, c := range peerCases {
		t.Run(c.name, func(t *testing.T) {
			f := probed(t, c.peers...)
			if c.change != nil {
				c.change(t, f)
			}
			if d := cmp.Diff(c.want, told(f.peers(), nil)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// A daemon that is not ready, and a peer that it does not serve, are findings with a remedy.
func TestNodeAndRefusedPeers(t *testing.T) {
	f := healthy(t)
	f.Status = &node.Status{Backend: "vxlan", Synced: false, Reasons: []string{"the datastore does not answer: refused"}}
	refused := func(third byte, backend, problem string) node.Peer {
		return node.Peer{Subnet: lease.Key{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, third, 0}), 24)},
			PublicIP: netip.AddrFrom4([4]byte{192, 168, 64, third}), Backend: backend, State: node.PeerRefused,
			Problems: []string{problem}}
	}
	f.Peers = []node.Peer{refused(2, "host-gw", "other"), refused(3, "vxlan", "no MAC"), refused(4, "host-gw", "x")}
	const want = "failure node: flanneld says that this node is not ready: the datastore does not answer: refused. " +
		"What to do: start the datastore, or correct the flags of flanneld that name it " +
		"(--etcd-endpoints, --remote, --kube-api-url). " +
		"This asks it from here # flannelctl config get --etcd-endpoints=URL\n"
	if d := cmp.Diff(want, told(f.node(), nil)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// Advice that leads back to this very command is none: flannelctl status names it.
	f.Status.Synced, f.Status.Reasons = true, []string{"the host forwards no IPv4 packet"}
	f.Status.Uplink.Link, f.Status.Subnet = "eth0", f.Peers[0].Subnet
	const wantBare = "failure node: flanneld says that this node is not ready: the host forwards no IPv4 packet. " +
		"The other findings and its log say more # journalctl -u flanneld -n 50\n"
	if d := cmp.Diff(wantBare, told(f.node(), nil)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	const wantPeers = "warning backend: this node runs \"vxlan\" and does not serve 192.168.64.2, 192.168.64.4, of the " +
		"backend \"host-gw\": that node has another network config, or a release that has not followed it. " +
		"Restart its flanneld, with " +
		"the same config (in Kubernetes: kubectl -n kube-flannel rollout restart daemonset kube-flannel-ds) " +
		"# ssh 192.168.64.2 systemctl restart flanneld\n" +
		"warning peers: the peer 192.168.64.3 with 10.5.3.0-24 is not served: no MAC " +
		"# flannelctl leases show 10.5.3.0-24\n"
	if d := cmp.Diff(wantPeers, told(f.refused(), nil)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	f.Status.Change = &node.Change{}
	if got := f.refused(); len(got) != 3 || got[0].Topic != "peers" {
		t.Errorf("while the backend changes: %+v", got)
	}
	f.Status.Reasons, f.Peers = nil, nil
	if got := append(f.node(), f.refused()...); len(got) > 0 {
		t.Errorf("all well: %+v", got)
	}
}
