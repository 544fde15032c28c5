package report

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/core/uplink"
	"github.com/flanneld/flannel/internal/page"
	"github.com/flanneld/flannel/internal/page/browser"
	"github.com/flanneld/flannel/tools/trace"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// evil ends every context in which a text could stand.
const evil = "`\"'></code></script></title><script>alert(1)</script><img src=http://198.51.100.1/x onerror=alert(1)>"

func key(third string) lease.Key {
	k, err := lease.ParseKey("10.5." + third + ".0-24")
	if err != nil {
		panic(err)
	}
	return k
}

func address(last string) netip.Addr { return netip.MustParseAddr("192.0.2." + last) }

// way is how a node sends to a peer, whose probes have a finding.
func way(last string, finding probe.Finding) node.Way {
	subnet := key(last).Of(cidr.V4)
	return node.Way{Subnet: subnet, Type: "tunnel", Link: "flannel.1", Via: subnet.Addr(), Probe: &probe.Result{
		Address: subnet.Addr(), Finding: finding, Since: now.Add(-time.Minute), At: now.Add(-time.Second),
		RTT: time.Millisecond, MTU: 1450, Passes: 1350,
	}}
}

func peer(last string, finding probe.Finding) node.Peer {
	return node.Peer{Subnet: key(last), PublicIP: address(last), Backend: "vxlan", State: node.PeerServed,
		Ways: []node.Way{way(last, finding)}}
}

// answered is a daemon that answers, with its events and peers.
func answered(last string, peers ...node.Peer) Daemon {
	d := Daemon{
		From: "192.0.2." + last + ":8081",
		Status: &node.Status{
			TakenAt: now, Phase: node.PhaseReady, Ready: true, Synced: true, Subnet: key(last), Backend: "vxlan",
			Uplink: uplink.Uplink{Link: "eth0", IP: address(last), PublicIP: address(last)},
			Peers:  len(peers), Probes: probe.Summary{Interval: time.Minute, Listens: true},
		},
		Peers: control.Peers{TakenAt: now, Peers: peers},
		Diff:  &control.Diff{TakenAt: now, Lanes: []node.Difference{{Lane: "host"}}},
	}
	for i, e := range []control.Event{
		{Kind: "config", Text: "10.5.0.0/16"}, {Kind: control.PhaseKind, Text: "leased"},
		{Kind: control.PhaseKind, Text: "ready"},
	} {
		e.At = now.Add(-time.Hour + time.Duration(i)*time.Minute)
		d.Events.Events = append(d.Events.Events, e)
	}
	return d
}

// open writes the page of a recording, and opens it in Chromium, which fails the test if
// the page runs anything foreign or asks the network.
func open(t *testing.T, name string, rec page.Recording) *browser.Browser {
	t.Helper()
	var text bytes.Buffer
	if err := page.Write(&text, rec); err != nil {
		t.Fatal(err)
	}
	folder := os.Getenv("PAGES")
	if folder == "" {
		folder = t.TempDir()
	}
	path := filepath.Join(folder, name+".html")
	if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return browser.Open(t, path, 1280)
}

// holds checks that the elements of a page have texts.
func holds(t *testing.T, b *browser.Browser, texts map[string]string) {
	t.Helper()
	for selector, want := range texts {
		if got := b.Text(t, selector); !strings.Contains(got, want) {
			t.Errorf("%s shows %q, want %q in it", selector, got, want)
		}
	}
}

func TestPageOfAHealthyCluster(t *testing.T) {
	b := open(t, "healthy", Build(now, []Daemon{
		answered("1", peer("2", probe.Well)), answered("2", peer("1", probe.Well)),
	}, "flannelctl report --port 8081"))
	holds(t, b, map[string]string{
		"#verdict": "✓ all is well", "h1": "flannel on 2 nodes", "#summary": "2 of 2 daemons that answered are ready.",
		"#now": "2026-11-22 12:00:00", "#inspector": "in sync at revision", "#reach": "✓", "#missing": "nothing",
		"#leases": "10.5.2.0-24", "#log": "10.5.0.0/16", "#replay": "flannelctl report --port 8081",
		"#path": "10.5.", "#topology": "as desired",
	})
	b.Scrub(t, 0)
	holds(t, b, map[string]string{"#now": "2026-11-22 11:00:00", "#inspector": "not known of this moment"})
}

// sick is a cluster in which most is wrong.
func sick() []Daemon {
	a := answered("1", peer("2", probe.SizeLost), peer("3", probe.Unreachable), peer("4", probe.Unreachable))
	a.Status.Phase, a.Status.Ready = node.PhaseProgrammed, false
	a.Status.Reasons = []string{"the datastore does not answer"}
	a.Diff.Lanes[0].Lines = []node.Line{{Sign: "+", Object: "route 10.5.2.0/24", Why: "the device is missing"}}
	a.Traces = []*trace.Result{{
		Flow:   trace.Flow{Src: key("1").Of(cidr.V4).Addr(), Dst: key("3").Of(0).Addr()},
		Hops:   []trace.Hop{{Step: "arrive", Text: "this host sends it"}, {Step: "route", Text: "blackhole"}},
		Reason: "blackhole", Remedy: "Delete the route.",
	}}
	back := peer("1", probe.Unreachable)
	back.Ways[0].Probe.Heard = now.Add(-time.Second)
	c := answered("4", back)
	c.Events.Dropped = 7
	return []Daemon{a, answered("2", peer("1", probe.Well)), c,
		{From: "192.0.2.3:8081", Missing: []string{"everything: it does not answer"}}}
}

func TestPageOfASickCluster(t *testing.T) {
	b := open(t, "sick", Build(now, sick(), "flannelctl report"))
	holds(t, b, map[string]string{
		"#verdict": "✕ trouble",
		"#summary": "192.0.2.1 is not ready: the datastore does not answer. The host 192.0.2.1 differs from its " +
			"desired state in 1 object, the first: missing route 10.5.2.0/24 (the device is missing).",
		"#missing":             "192.0.2.3:8081: everything: it does not answer",
		"#missing li":          "192.0.2.3: its daemon was not asked",
		"#node option:checked": "192.0.2.1",
		"#inspector .diff":     "+ route 10.5.2.0/24",
		"#topology":            "unknown",
	})
	if got := b.Text(t, "#missing"); !strings.Contains(got, "192.0.2.4: the first 7 events, which it has forgotten") {
		t.Errorf("not known: %q", got)
	}
	for pair, want := range map[string]string{
		"192.0.2.1 to 192.0.2.2":       "answers packets of at most 1350 bytes",
		"192.0.2.1 to 192.0.2.3":       "✕ lost: probes are not answered",
		"192.0.2.1 to 192.0.2.3: lost": "Delete the route.",
		"192.0.2.1 to 192.0.2.4":       "probes arrive, and the answers are lost",
	} {
		b.Do(t, chromedp.Click(chromedp.CSS(`#reach [aria-label^="`+pair+`"]`)))
		holds(t, b, map[string]string{"#path": want})
	}
}

// A page with texts by a hostile program shows them as texts.
func TestHostileTexts(t *testing.T) {
	d := answered("1", peer("2", probe.Well))
	d.From = evil
	texts := []string{evil}
	d.Status.Reasons, d.Status.Problems = texts, texts
	d.Status.Notes = texts
	d.Status.Ready, d.Status.Backend = false, evil
	d.Peers.Peers[0].Backend, d.Peers.Peers[0].Ways[0].Link = evil, evil
	d.Peers.Peers[0].Ways[0].Former = evil
	d.Diff.Lanes[0].Lines = []node.Line{{Sign: evil, Object: evil, Why: evil}}
	d.Diff.Lanes[0].Notes = []string{evil}
	d.Events.Events = append(d.Events.Events, control.Event{At: now, Kind: evil, Text: evil},
		control.Event{At: now, Kind: control.PhaseKind, Text: evil})
	d.Missing = []string{evil}
	nameless := answered("3")
	nameless.From = evil
	nameless.Status.Subnet, nameless.Status.Uplink = lease.Key{}, uplink.Uplink{}
	b := open(t, "hostile", Build(now, []Daemon{d, nameless}, "flannelctl report "+evil))
	for _, selector := range []string{"#summary", "#missing", "#replay", "#inspector", "#log"} {
		if got := b.Text(t, selector); !strings.Contains(got, "<script>alert(1)</script>") {
			t.Errorf("%s shows %q", selector, got)
		}
	}
	if n := browser.Ask[int](t, b, `document.querySelectorAll("img").length`); n != 0 {
		t.Errorf("%d images come from texts", n)
	}
	b.Do(t, chromedp.Click(chromedp.CSS(`[data-node^="`+"`"+`"]`)))
	b.Scrub(t, 500)
}

// A page without any answer says so.
func TestNoAnswers(t *testing.T) {
	silent := Daemon{From: "this node", Missing: []string{"everything: no flanneld answers"}}
	rec := Build(now, []Daemon{silent}, "flannelctl report")
	if rec.OK {
		t.Error("all is well")
	}
	holds(t, open(t, "silent", rec), map[string]string{
		"#verdict": "✕ trouble", "#summary": "No daemon has answered. 1 thing could not be learnt",
		"#missing": "this node: everything: no flanneld answers",
	})
}

// A page about thousands of nodes shows some, first those with trouble.
func TestManyNodes(t *testing.T) {
	d := answered("1")
	for i := range 5000 {
		p := peer("2", probe.Well)
		base := netip.AddrFrom4([4]byte{10, byte(10 + i>>8), byte(i), 0})
		p.Subnet, p.PublicIP = lease.Key{V4: netip.PrefixFrom(base, 24)}, base.Next()
		if i == 4999 {
			p.Ways[0].Subnet = netip.PrefixFrom(base, 24)
			p.Ways[0].Probe.Finding = probe.Unreachable
		}
		d.Peers.Peers = append(d.Peers.Peers, p)
	}
	rec := Build(now, []Daemon{d}, "flannelctl report")
	if len(rec.Nodes) != mostHosts || rec.Packet < 0 || rec.Probes[rec.Packet].To != "10.29.135.1" {
		t.Errorf("%d nodes, %+v", len(rec.Nodes), rec.Probes)
	}
	holds(t, open(t, "many", rec), map[string]string{
		"h1": "flannel on 5001 nodes", "#missing": "4941 further nodes: the page shows 60, those with trouble first",
	})
}

// An event of a host that had no time yet does not stretch the page over half a century.
func TestEventBeforeTheClockWasSet(t *testing.T) {
	d := answered("1")
	d.Events.Events[0].At = time.Unix(3, 0)
	rec := Build(now, []Daemon{d}, "flannelctl report")
	if rec.Length != (59 * time.Minute).Microseconds() {
		t.Errorf("the page covers %v µs", rec.Length)
	}
	if len(rec.Events) == 0 || rec.Events[0].Kind != "config" {
		t.Errorf("events %+v", rec.Events)
	}
}
