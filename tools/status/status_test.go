package status

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/core/uplink"
	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/output/outputtest"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func key(s string) lease.Key {
	k, err := lease.ParseKey(s)
	if err != nil {
		panic(err)
	}
	return k
}

func lookedAt(at time.Time) node.Work { return node.Work{LastLook: at} }

// readyNode is the status of a node without any trouble.
func readyNode() Result {
	addr := netip.MustParseAddr("192.168.64.2")
	return Result{
		Phase: node.PhaseReady, Ready: true, Subnet: key("10.5.3.0-24"), Backend: "vxlan", MTU: 1450,
		Uplink: uplink.Uplink{Link: "eth0", MTU: 1500, IP: addr, PublicIP: addr},
		Synced: true, Revision: 42, SyncedAt: now, TakenAt: now, Version: "v0.9.0",
		Expires: now.Add(23*time.Hour + 10*time.Minute), RenewBy: now.Add(7*time.Hour + 10*time.Minute),
		Firewall: "nftables v1.0.9", PeersBy: node.PeerCounts{Served: 2},
		Lanes: []node.LaneStatus{
			{Name: "host", Watched: true, AsDesired: true, Work: lookedAt(now.Add(-7 * time.Second))},
			{Name: "firewall", Watched: true, AsDesired: true, Work: lookedAt(now.Add(-2 * time.Second))},
			{Name: "commands"},
		},
		Repairs: []node.Repair{{At: now.Add(-time.Minute), Lane: "host", Changes: 1,
			Text: "replace route 10.5.4.0/24 via 10.5.4.0 dev flannel.1 onlink"}},
	}
}

// text returns the text of a result on a terminal of 80 columns.
func text(t testing.TB, r Result, format output.Format) string {
	t.Helper()
	return outputtest.Print(t, output.Printer{Format: format, Width: 80}, r)
}

func want(t *testing.T, r Result, trouble bool, text string, got string) {
	t.Helper()
	if d := cmp.Diff(text, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if r.Trouble() != trouble {
		t.Errorf("trouble: %t, want %t", r.Trouble(), trouble)
	}
}

func TestReadyNode(t *testing.T) {
	want(t, readyNode(), false, `phase          ready
subnet         10.5.3.0/24
uplink         eth0 192.168.64.2, 1500 bytes
mtu            1450 bytes for pods
backend        vxlan
store          synced, revision 42
lease          ends in 23h10m, renewed in 7h10m
firewall       nftables v1.0.9
peers          2 served
lane host      as desired, looked 7s ago
lane firewall  as desired, looked 2s ago
repair         1m0s ago: replace route 10.5.4.0/24 via 10.5.4.0 dev flannel.1
               onlink
version        v0.9.0
`, text(t, readyNode(), output.Table))
}

// Every trouble has a line of its own.
func TestNodeInTrouble(t *testing.T) {
	r := readyNode()
	r.Phase, r.Ready = node.PhaseConfigured, false
	r.Synced, r.SyncedAt = false, now.Add(-3*time.Minute)
	r.Fenced = true
	r.Age, r.Unhealthy = 80*time.Second, []string{"stalled: a decision takes 1m20s"}
	r.Reasons = []string{"the datastore does not answer: connection refused",
		"fenced: subnet 10.5.3.0-24 may belong to another node"}
	r.Problems = []string{"peer 10.5.4.0-24: VtepMAC \"x\" is no MAC address"}
	r.Notes = []string{"IPv4 packets between two pods of this host do not pass through iptables"}
	r.Quarantined, r.PeersBy = 1, node.PeerCounts{Served: 1, Pending: 1, Refused: 1, Lost: 1, Former: 1}
	r.Lanes[0].AsDesired, r.Lanes[0].FailingFor = false, 5
	r.Repairs = nil
	r.Change = &node.Change{To: `{"Type":"host-gw"}`, Former: []node.PreviousBackend{
		{From: `{"Type":"vxlan"}`, Sends: make([]lease.Key, 1), NotFollowed: make([]lease.Key, 2)}}}
	want(t, r, true, `phase          configured, not ready
age            1m20s: flanneld is busy, and this is the last known status
unhealthy      stalled: a decision takes 1m20s
not ready      the datastore does not answer: connection refused
not ready      fenced: subnet 10.5.3.0-24 may belong to another node
remedy         start the datastore, or correct the flags of flanneld that name
               it (--etcd-endpoints, --remote, --kube-api-url). This asks it
               from here: flannelctl config get --etcd-endpoints=URL
problem        peer 10.5.4.0-24: VtepMAC "x" is no MAC address
note           IPv4 packets between two pods of this host do not pass through
               iptables
subnet         10.5.3.0/24
uplink         eth0 192.168.64.2, 1500 bytes
mtu            1450 bytes for pods
backend        vxlan
change         from {"Type":"vxlan"} to {"Type":"host-gw"}: the node keeps the
               previous backend until the operator ends the change, and sends to
               1 peer by it; 2 peers not followed
store          not synced since 3m0s: revision 42, 1 quarantined record
lease          fenced: the subnet may belong to another node
firewall       nftables v1.0.9
peers          1 served, 1 pending, 1 refused, 1 lost by the datastore, 1 by a
               previous backend
lane host      not as desired, looked 7s ago, 5 attempts
lane firewall  as desired, looked 2s ago
version        v0.9.0
`, text(t, r, output.Table))
}

// The advice is about the most basic of the reasons.
func TestAdvice(t *testing.T) {
	for _, c := range []struct {
		want string
		harm func(*Result)
	}{
		{"flannelctl config get --etcd-endpoints=URL", func(r *Result) {
			r.Synced, r.Backend = false, ""
			r.Fenced = true
		}},
		{"ip -br addr; ip route", func(r *Result) {
			r.Synced = false
			r.Reasons = []string{"the datastore does not answer: dial tcp 192.168.64.254:2379: connect: network is unreachable"}
		}},
		{"flannelctl config set FILE", func(r *Result) { r.Backend, r.Uplink = "", uplink.Uplink{} }},
		{"flanneld --iface=NAME", func(r *Result) { r.Uplink, r.Subnet = uplink.Uplink{}, lease.Key{} }},
		{"flannelctl leases list", func(r *Result) { r.Fenced, r.Lanes[0].AsDesired = true, false }},
		{"flannelctl leases list", func(r *Result) { r.Subnet = lease.Key{} }},
		{"flannelctl diff", func(r *Result) { r.Lanes[1].AsDesired = false }},
		{"flannelctl check", func(*Result) {}},
		{"ip -br addr; ip route", func(r *Result) {
			r.Reasons = []string{"uplink: interface eth0 has lost 192.168.64.2; the node keeps using it"}
			r.Lanes[0].AsDesired = false
		}},
	} {
		r := readyNode()
		if got := Advise(node.Status(r)); got != (Advice{}) {
			t.Errorf("a ready node: %+v", got)
		}
		r.Ready = false
		c.harm(&r)
		if got := Advise(node.Status(r)); got.Command != c.want || got.Text == "" {
			t.Errorf("%+v, want %s", got, c.want)
		}
	}
}

// A node that has only just become unready, as after a change of its config, gets no advice that may be false a moment
// later.
func TestNoAdviceForAMoment(t *testing.T) {
	for _, harm := range []func(*Result){
		func(r *Result) { r.Lanes[0].AsDesired = false },
		func(r *Result) { r.Subnet = lease.Key{} },
		func(r *Result) { r.Synced = false },
		func(*Result) {},
	} {
		r := readyNode()
		r.Ready = false
		harm(&r)
		r.UnreadySince = now.Add(-time.Second)
		if got := Advise(node.Status(r)); got != (Advice{}) {
			t.Errorf("unready for a second: %+v", got)
		}
		r.UnreadySince = now.Add(-time.Minute)
		if got := Advise(node.Status(r)); got == (Advice{}) {
			t.Errorf("unready for a minute, no advice: %+v", r)
		}
	}
}

// The advice about a datastore that fails for a known reason is about that reason, whether it answers or not.
func TestAdviceByFault(t *testing.T) {
	for fault, want := range map[lease.Fault]string{
		lease.FaultSpace:        "etcdctl compact REVISION && etcdctl defrag --cluster && etcdctl alarm disarm",
		lease.FaultPassword:     "etcdctl user passwd NAME",
		lease.FaultUnauthorized: "openssl x509 -noout -dates -in CERTIFICATE",
		lease.FaultLeader:       "etcdctl endpoint status --cluster -w table",
		lease.FaultForbidden:    "kubectl describe clusterrole,clusterrolebinding flannel",
		lease.FaultExpired:      "openssl x509 -noout -dates -in FILE",
		lease.FaultAuthority:    "openssl verify -CAfile AUTHORITY CERTIFICATE",
		lease.FaultCertificate:  "openssl x509 -noout -ext subjectAltName -in FILE",
		lease.FaultDenied:       "etcdctl role grant-permission ROLE readwrite --prefix=true /coreos.com/network/",
	} {
		for _, synced := range []bool{false, true} {
			r := readyNode()
			r.StoreFault = fault
			if got := Advise(node.Status(r)); got != (Advice{}) {
				t.Errorf("a ready node: %+v", got)
			}
			r.Ready, r.Synced = false, synced
			if got := Advise(node.Status(r)); got.Command != want || got.Text == "" {
				t.Errorf("%s: %+v, want %s", fault, got, want)
			}
		}
	}
}

// The advice about a name of the datastore that does not resolve is about that name.
func TestAdviceByName(t *testing.T) {
	for _, reason := range []string{
		"the datastore does not answer: dial tcp: lookup etcd.example on 127.0.0.53:53: no such host",
		"the datastore has not answered yet: dial tcp: lookup etcd.example: i/o timeout",
	} {
		r := readyNode()
		r.Ready, r.Synced = false, false
		r.Reasons = []string{reason}
		if got := Advise(node.Status(r)); got.Command != "getent hosts etcd.example" {
			t.Errorf("%s: %+v", reason, got)
		}
	}
}

// An etcd without a leader takes connections, and answers no request.
func TestAdviceWithoutLeader(t *testing.T) {
	const mute = "the datastore does not answer: etcd: read /n/config: context deadline exceeded "
	for why, want := range map[string]string{
		"(context deadline exceeded)":        "check",
		"(dial tcp 192.0.2.1:2379: refused)": "config get",
	} {
		r := readyNode()
		r.Ready, r.Synced = false, false
		r.Reasons = []string{mute + why}
		if got := Advise(node.Status(r)); got.Command != "flannelctl "+want+" --etcd-endpoints=URL" {
			t.Errorf("%s: %+v", why, got)
		}
	}
}

// What probes have found out is no trouble of this node.
func TestProbes(t *testing.T) {
	r := readyNode()
	r.Probes = probe.Summary{Interval: time.Minute, By: map[probe.Finding]int{
		probe.Well: 2, probe.Unreachable: 1, probe.SizeLost: 1, probe.TCPLost: 1, probe.ICMPLost: 1, probe.Unknown: 3,
	}, Faults: []string{"10.5.9.0/24 does not answer at 10.5.9.0"}}
	got := text(t, r, output.Table)
	for _, line := range []string{
		"\nprobes         2 well, 1 unreachable, 1 lose large packets, 1 lose TCP, 1 lose\n" +
			"               ICMP, 3 to be probed\n",
		"\nfault          10.5.9.0/24 does not answer at 10.5.9.0\n",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
	if r.Trouble() {
		t.Error("an unreachable peer is trouble of this node")
	}
	r.Probes.Unable = "open a raw socket: operation not permitted"
	if got := text(t, r, output.Table); !strings.Contains(got, "none can be sent: open a raw socket") {
		t.Error(got)
	}
}

// A daemon that has just begun knows next to nothing.
func TestNodeThatHasJustBegun(t *testing.T) {
	r := Result{Reasons: []string{"the datastore has not answered yet"}, Version: "v0.9.0"}
	want(t, r, true, `phase      idle, not ready
not ready  the datastore has not answered yet
remedy     start the datastore, or correct the flags of flanneld that name it
           (--etcd-endpoints, --remote, --kube-api-url). This asks it from here:
           flannelctl config get --etcd-endpoints=URL
subnet     none yet
uplink     none yet
backend    not known yet
store      never synced
lease      none
firewall   no rules are desired
peers      0 served
version    v0.9.0
`, text(t, r, output.Table))
}

// A program reads back what the daemon wrote.
func TestJSON(t *testing.T) {
	var back Result
	if err := json.Unmarshal([]byte(text(t, readyNode(), output.JSON)), &back); err != nil {
		t.Fatal(err)
	}
	if back.Subnet != readyNode().Subnet || back.Phase != node.PhaseReady || len(back.Repairs) != 1 {
		t.Errorf("%+v", back)
	}
}
