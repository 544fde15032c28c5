package ping

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/output/outputtest"
)

// cluster holds one peer with a device, one without, and two that the daemon probes elsewhere.
var cluster = control.Peers{Peers: []node.Peer{
	peer("192.168.64.2", node.Way{Subnet: netip.MustParsePrefix("10.5.2.0/24"), Type: "tunnel", Link: "flannel.1"}),
	peer("192.168.64.3", node.Way{Subnet: netip.MustParsePrefix("10.5.3.0/24"), Type: "direct", Link: "eth0"}),
	peer("192.168.64.4", node.Way{Subnet: netip.MustParsePrefix("10.5.4.0/24"), Type: "tunnel", Link: "flannel.1",
		Probe: &probe.Result{Address: netip.MustParseAddr("10.5.4.9")}}),
	peer("192.168.64.6", node.Way{Subnet: netip.MustParsePrefix("10.5.6.0/24"), Type: "direct", Link: "eth0",
		Probe: &probe.Result{Address: netip.MustParseAddr("192.168.64.6")}}), // it has no pods yet
}}

var this = node.Status{MTU: 1450, Subnet: lease.Key{V4: netip.MustParsePrefix("10.5.9.0/24")}}

func peer(address string, way node.Way) node.Peer {
	return node.Peer{
		Subnet: lease.Key{V4: way.Subnet}, PublicIP: netip.MustParseAddr(address), Ways: []node.Way{way},
	}
}

func TestTarget(t *testing.T) {
	for name, want := range map[string]string{
		"10.5.2.0/24":  "10.5.2.0",
		"192.168.64.2": "10.5.2.0",
		"10.5.2.77":    "10.5.2.77",
		"192.168.64.3": "10.5.3.1",
		"192.168.64.4": "10.5.4.9",
		"192.0.2.7":    "192.0.2.7",
		"10.5.9.0/24":  "error: no peer has 10.5.9.0/24 as its address or in its subnet",
		"n2": `error: peer "n2": want a subnet, or the address of a node or a pod; ` +
			`names of nodes are not known`,
	} {
		target, err := Target(name, cluster, this)
		got := target.Addr.String()
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want || err == nil && target.MTU != 1450 {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestSource has pings to a node without a device of flannel leave from the bridge of this
// host's pods, if there is one.
func TestSource(t *testing.T) {
	for to, want := range map[string]string{
		"10.5.2.0/24": "invalid IP false", // by a device
		"10.5.3.0/24": "10.5.9.1 true",
		"10.5.3.7":    "invalid IP false", // a pod
		"10.5.6.0/24": "invalid IP false", // the uplink
	} {
		target, err := Target(to, cluster, this)
		if err != nil {
			t.Fatal(err)
		}
		var sent []probe.Request
		send := func(r probe.Request) probe.Answer {
			sent = append(sent, r)
			return probe.Answer{OK: true}
		}
		if _, err := Echo(t.Context(), target, 1, send); err != nil {
			t.Fatal(err)
		}
		if _, err := Examine(t.Context(), target, send); err != nil {
			t.Fatal(err)
		}
		for _, r := range sent {
			if got := fmt.Sprint(r.From, r.FromOptional); got != want {
				t.Errorf("%s: %+v leaves from %s, want %s", to, r, got, want)
			}
		}
		if len(sent) != 4 {
			t.Errorf("%s: %d packets", to, len(sent))
		}
	}
}

// sender answers probes of at most a size, after 250 µs.
func sender(size int) func(probe.Request) probe.Answer {
	return func(r probe.Request) probe.Answer {
		return probe.Answer{OK: r.Size <= size, RTT: 250 * time.Microsecond}
	}
}

func TestText(t *testing.T) {
	target, err := Target("10.5.2.0/24", cluster, this)
	if err != nil {
		t.Fatal(err)
	}
	echo := func(size int) Result {
		r, err := Echo(t.Context(), target, 2, sender(size))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	examined := func(size int) Result {
		r, err := Examine(t.Context(), target, sender(size))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for want, r := range map[string]Result{
		"10.5.2.0 answers in 0.25 ms\n10.5.2.0 answers in 0.25 ms\n10.5.2.0: 2 probes, 0 lost\n": echo(1450),
		"10.5.2.0: 2 probes, 2 lost\n":                                  echo(0),
		"10.5.2.0 answers packets of 1450 bytes, and TCP, in 0.25 ms\n": examined(1450),
		"10.5.2.0 answers packets of at most 1311 bytes, pods may send 1450: the MTU of the network between the hosts is " +
			"too small for it\n": examined(1311),
	} {
		if got := outputtest.Print(t, output.Printer{Format: output.Table}, r); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	if echo(1450).Trouble() || !echo(0).Trouble() || examined(1450).Trouble() || !examined(1311).Trouble() {
		t.Error("trouble is not told")
	}
}

func TestUnable(t *testing.T) {
	unable := func(probe.Request) probe.Answer { return probe.Answer{Unable: "operation not permitted"} }
	target := probe.Target{Addr: netip.MustParseAddr("10.5.2.0"), MTU: 1450}
	if _, err := Echo(t.Context(), target, 1, unable); err == nil {
		t.Error("no error of an echo")
	}
	if _, err := Examine(t.Context(), target, unable); err == nil {
		t.Error("no error of an examination")
	}
	target.MTU = 0
	if _, err := Examine(t.Context(), target, sender(1450)); err == nil {
		t.Error("an examination without an MTU")
	}
}
