package mesh

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/core/uplink"
	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/output/outputtest"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func subnet(i byte) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, i, 0}), 24)
}

func public(i byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 168, 64, i}) }

// answer returns the answer of the i-th of three nodes; result returns its probe of
// another one.
func answer(i byte, result func(to byte) probe.Result) Answer {
	a := Answer{From: public(i).String(), Status: node.Status{
		Subnet: lease.Key{V4: subnet(i)}, Uplink: uplink.Uplink{Link: "eth0", PublicIP: public(i)}, Peers: 2,
		Probes: probe.Summary{Interval: time.Minute, Listens: true},
	}}
	a.Peers.TakenAt = now
	for to := byte(1); to <= 3; to++ {
		if to == i {
			continue
		}
		r := result(to)
		a.Peers.Peers = append(a.Peers.Peers, node.Peer{
			Subnet: lease.Key{V4: subnet(to)}, PublicIP: public(to), Ways: []node.Way{{Subnet: subnet(to), Probe: &r}},
		})
	}
	return a
}

// well is a peer that answers everything, and was heard a moment ago.
func well(to byte) probe.Result {
	return probe.Result{
		Address: subnet(to).Addr(), Finding: probe.Well, RTT: 420 * time.Microsecond, MTU: 1450, Passes: 1450,
		Heard: now.Add(-30 * time.Second),
	}
}

// except returns the results of well, with another one about one peer.
func except(peer byte, change func(*probe.Result)) func(byte) probe.Result {
	return func(to byte) probe.Result {
		r := well(to)
		if to == peer {
			change(&r)
		}
		return r
	}
}

func unreachable(r *probe.Result) {
	r.Finding, r.Since = probe.Unreachable, now.Add(-10*time.Minute)
}

func deaf(r *probe.Result) {
	unreachable(r)
	r.Heard = now.Add(-9 * time.Minute)
}

func text(t *testing.T, answers ...Answer) string {
	t.Helper()
	return outputtest.Print(t, output.Printer{Format: output.Table, Width: 100}, Compare(answers))
}

func TestMatrix(t *testing.T) {
	for name, c := range map[string]struct {
		answers []Answer
		want    string
	}{
		"all well": {
			[]Answer{answer(1, well), answer(2, well), answer(3, well)},
			`FROM / TO     192.168.64.1     192.168.64.2     192.168.64.3
192.168.64.1  ·                0.42 ms, 1450 B  0.42 ms, 1450 B
192.168.64.2  0.42 ms, 1450 B  ·                0.42 ms, 1450 B
192.168.64.3  0.42 ms, 1450 B  0.42 ms, 1450 B  ·
`,
		},
		"one direction": {
			[]Answer{answer(1, except(2, unreachable)), answer(2, except(1, deaf)), answer(3, well)},
			`FROM / TO     192.168.64.1     192.168.64.2     192.168.64.3
192.168.64.1  ·                lost             0.42 ms, 1450 B
192.168.64.2  answer lost      ·                0.42 ms, 1450 B
192.168.64.3  0.42 ms, 1450 B  0.42 ms, 1450 B  ·
packets from 192.168.64.1 to 192.168.64.2 are lost; those from 192.168.64.2 to 192.168.64.1 arrive
`,
		},
		"both directions": {
			[]Answer{answer(1, except(2, deaf)), answer(2, except(1, deaf)), answer(3, well)},
			`FROM / TO     192.168.64.1     192.168.64.2     192.168.64.3
192.168.64.1  ·                lost             0.42 ms, 1450 B
192.168.64.2  lost             ·                0.42 ms, 1450 B
192.168.64.3  0.42 ms, 1450 B  0.42 ms, 1450 B  ·
packets between 192.168.64.1 and 192.168.64.2 are lost in both directions
`,
		},
		"small MTU, one daemon away": {
			[]Answer{
				answer(1, except(3, func(r *probe.Result) { r.Finding, r.Passes = probe.SizeLost, 1350 })),
				answer(2, except(3, func(r *probe.Result) { deaf(r); r.Heard = time.Time{} })),
				{From: "192.168.64.3:8081", Err: errors.New("connection refused")},
			},
			`FROM / TO     192.168.64.1     192.168.64.2     192.168.64.3
192.168.64.1  ·                0.42 ms, 1450 B  0.42 ms, 1350 B
192.168.64.2  0.42 ms, 1450 B  ·                no answer
192.168.64.3  ?                ?                ·
? a node whose daemon was not asked: name it, such as flannelctl mesh 10.0.0.3
from 192.168.64.1: 192.168.64.3 answers packets of at most 1350 bytes, pods may send 1450: the MTU
of the network between the hosts is too small for it
from 192.168.64.2: 192.168.64.3 does not answer at 10.5.3.0
not asked: 192.168.64.3:8081: connection refused
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, text(t, c.answers...)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if got := Compare(c.answers).Trouble(); got != (name != "all well") {
				t.Errorf("trouble: %t", got)
			}
		})
	}
}

// TestDaemonThatCannotListen does not say that a daemon which cannot listen has heard nothing.
func TestDaemonThatCannotListen(t *testing.T) {
	other := answer(2, except(1, deaf))
	other.Status.Probes.Listens = false
	if got := text(t, answer(1, except(2, unreachable)), other); strings.Contains(got, "to 192.168.64.2 are lost") {
		t.Error(got)
	}
}

func TestEmptyMesh(t *testing.T) {
	if got := text(t, Answer{From: "this node", Peers: control.Peers{}}); got !=
		"no node is known\nnot asked: this node: the node has no subnet yet\n" {
		t.Errorf("%q", got)
	}
}
