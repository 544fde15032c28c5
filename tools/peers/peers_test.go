package peers

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
	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/output/outputtest"
)

// taken is the time of the examples.
var taken = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// examples are peers of every kind.
func examples() Result {
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	return Result{TakenAt: taken, Peers: []node.Peer{
		{Subnet: lease.Key{V4: prefix("10.5.3.0/24")}, PublicIP: addr("192.168.64.4"), Backend: "vxlan",
			State: node.PeerServed,
			Ways:  []node.Way{{Subnet: prefix("10.5.3.0/24"), Type: "tunnel", Link: "flannel.1"}}},
		{Subnet: lease.Key{V4: prefix("10.5.4.0/24"), V6: prefix("fd00:5:4::/64")}, PublicIP: addr("192.168.64.5"),
			PublicIP6: addr("fd00:a::5"), Backend: "wireguard", State: node.PeerPending, Lost: true,
			Ways: []node.Way{
				{Subnet: prefix("10.5.4.0/24"), Type: "tunnel", Link: "flannel-wg", Session: "alive",
					Handshake: taken.Add(-70 * time.Second)},
				{Subnet: prefix("fd00:5:4::/64"), Type: "tunnel", Link: "flannel-wg", Session: "none"}}},
		{Subnet: lease.Key{V4: prefix("10.5.6.0/24")}, State: node.PeerRefused, Problems: []string{"network is unreachable"},
			Ways: []node.Way{{Subnet: prefix("10.5.6.0/24"), Type: "direct", Link: "eth0", Former: `{"Type":"vxlan"}`}}},
	}}
}

// text returns the text of a result on a terminal of 80 columns.
func text(t testing.TB, r Result, format output.Format) string {
	t.Helper()
	return outputtest.Print(t, output.Printer{Format: format, Width: 80}, r)
}

func TestTable(t *testing.T) {
	want := `SUBNET         ADDRESS       BACKEND    WAY                  HANDSHAKE  STATE
10.5.3.0/24    192.168.64.4  vxlan      tunnel flannel.1     -          served
10.5.4.0/24    192.168.64.5  wireguard  tunnel flannel-wg    1m10s ago
    pending, lost by the datastore
fd00:5:4::/64  fd00:a::5                tunnel flannel-wg    never
10.5.6.0/24    -             -          direct eth0, former  -
    refused: network is unreachable
3 peers: 1 served, 1 pending, 1 refused
`
	if d := cmp.Diff(want, text(t, examples(), output.Table)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !examples().Trouble() {
		t.Error("there is no trouble")
	}
	none := Result{}
	if got := text(t, none, output.Table); got != "no peers\n" || none.Trouble() {
		t.Errorf("%q, trouble: %t", got, none.Trouble())
	}
}

// TestProbes shows what probes have found out beside the peers' states.
func TestProbes(t *testing.T) {
	r := examples()
	r.Peers = r.Peers[:2]
	addr := netip.MustParseAddr
	r.Peers[0].Ways[0].Probe = &probe.Result{Address: addr("10.5.3.0"), Finding: probe.Well, RTT: 412 * time.Microsecond,
		Sent: 30, Lost: 3, MTU: 1450, Passes: 1450}
	r.Peers[1].State, r.Peers[1].Lost = node.PeerServed, false
	r.Peers[1].Ways[1].Probe = &probe.Result{Address: addr("fd00:5:4::"), Finding: probe.Unreachable, Sent: 3, Lost: 3,
		Since: taken.Add(-5 * time.Minute)}
	want := `SUBNET         ADDRESS       BACKEND    WAY                HANDSHAKE  RTT       LOSS  STATE
10.5.3.0/24    192.168.64.4  vxlan      tunnel flannel.1   -          0.412 ms  10%   served
10.5.4.0/24    192.168.64.5  wireguard  tunnel flannel-wg  1m10s ago  -         -     served
fd00:5:4::/64  fd00:a::5                tunnel flannel-wg  never      -         100%
    does not answer at fd00:5:4:: (for 5m0s)
2 peers: 2 served
`
	got := outputtest.Print(t, output.Printer{Format: output.Table, Width: 100}, r)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !r.Trouble() {
		t.Error("an unreachable peer is no trouble")
	}
	r.Peers = r.Peers[:1]
	if r.Trouble() {
		t.Error("a peer that answers is trouble")
	}
}

func TestMatching(t *testing.T) {
	for name, want := range map[string]string{
		"":              "10.5.3.0-24 10.5.4.0-24&fd00:5:4::-64 10.5.6.0-24",
		"10.5.3.0/24":   "10.5.3.0-24",
		"10.5.3.77":     "10.5.3.0-24",
		"fd00:5:4::9":   "10.5.4.0-24&fd00:5:4::-64",
		"192.168.64.5":  "10.5.4.0-24&fd00:5:4::-64",
		"fd00:a::5":     "10.5.4.0-24&fd00:5:4::-64",
		"10.5.99.1":     "no peer has 10.5.99.1/32 as its address or in its subnet",
		"node-7":        `peer "node-7": want a subnet, or the address of a node or a pod; names of nodes are not known`,
		"10.5.3.128/25": "10.5.3.0-24",
	} {
		var prefix netip.Prefix
		var err error
		if name != "" {
			prefix, err = ParseName(name)
		}
		var r Result
		if err == nil {
			r, err = examples().Matching(prefix)
		}
		var got []string
		for _, p := range r.Peers {
			got = append(got, p.Subnet.String())
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q matches %q, want %q", name, got, want)
		}
	}
}

func TestJSON(t *testing.T) {
	var back Result
	if err := json.Unmarshal([]byte(text(t, examples(), output.JSON)), &back); err != nil {
		t.Fatal(err)
	}
	same := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	if d := cmp.Diff(examples(), back, same, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
