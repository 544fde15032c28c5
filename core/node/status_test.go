package node

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

func TestPhaseReadsBack(t *testing.T) {
	for p := PhaseIdle; p <= PhaseReady; p++ {
		text, err := p.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		back := PhaseReady + 1
		if err := back.UnmarshalText(text); err != nil || back != p {
			t.Errorf("%s reads back as %s, %v", text, back, err)
		}
	}
	unchanged := PhaseLeased
	if err := unchanged.UnmarshalText([]byte("odd")); err == nil || unchanged != PhaseLeased {
		t.Errorf("an unknown phase reads as %s", unchanged)
	}
}

func TestStatusBeforeTheStoreAnswers(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.run(Input{})
	s := w.status()
	if s.Phase != PhaseIdle || !slices.Equal(s.Reasons, []string{"the datastore has not answered yet"}) {
		t.Errorf("%s: %q", s.Phase, s.Reasons)
	}
}

func TestStatusOfAReadyNode(t *testing.T) {
	w := readyWorld(t)
	s := w.status()
	own := w.own()
	if s.Subnet != own.Key || s.Uplink.Link != "eth0" || s.Uplink.PublicIP != own.Attrs.PublicIP {
		t.Errorf("subnet %s behind %+v, want %s", s.Subnet, s.Uplink, own.Key)
	}
	if s.Peers != 2 || s.Revision != w.rev || s.Quarantined != 0 {
		t.Errorf("%d peers at revision %d, want two at %d", s.Peers, s.Revision, w.rev)
	}
	if !s.Ready || !s.Synced || s.Stale || s.Fenced || s.Backend != "vxlan" || s.MTU != 1450 || s.Objects == 0 {
		t.Errorf("%+v", s)
	}
	if s.FailingFor != 0 || len(s.Notes)+len(s.Reasons)+len(s.Problems) > 0 {
		t.Errorf("failing for %d, notes %q, reasons %q, problems %q", s.FailingFor, s.Notes, s.Reasons, s.Problems)
	}
	p := w.n.Pulse()
	if p.Subnet != own.Key || p.Phase != PhaseReady || !p.Expires.Equal(s.Expires) || p.RenewBy.IsZero() {
		t.Errorf("%+v", p)
	}
}

// Status counts the plans in vain, and the log has each kind of failure once.
func TestStatusOfAFailingHost(t *testing.T) {
	w := readyWorld(t)
	w.applyErr = func(dataplane.Op) error { return errors.New("refused") }
	w.unplug("flannel.1")
	w.run(hint(HostLane))
	w.pass(10 * time.Second)
	if s := w.status(); s.Ready || s.FailingFor < 2 {
		t.Errorf("ready %t, failing for %d", s.Ready, s.FailingFor)
	}
	failed := 0
	for _, e := range w.events {
		if e.Level == Error && strings.Contains(e.Text, " failed, first: ") {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d errors logged, want one\n%s", failed, w.log())
	}
	w.applyErr = nil
	w.pass(time.Minute)
	w.wantReady()
	if s := w.status(); s.FailingFor != 0 {
		t.Errorf("failing for %d", s.FailingFor)
	}
}

// The log of a start names the config and the changes made.
func TestLogOfAStart(t *testing.T) {
	w := readyWorld(t)
	for kind, part := range map[string]string{
		"config": "10.5.0.0/16", "applied": " added, ", "subnet-file": "FLANNEL_SUBNET",
	} {
		logged := w.logged(kind)
		if len(logged) == 0 || !strings.Contains(logged[0], part) {
			t.Errorf("%s: %q, want %q in it", kind, logged, part)
		}
	}
}

// Requests that fail are logged once, and the pauses between them grow.
func TestFailedRequests(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.answer = func(Request) (lease.Grant, error) { return lease.Grant{}, errors.New("timeout") }
	w.tell()
	w.pass(10 * time.Second)
	if got := w.count("lease-request-failed"); got != 1 {
		t.Errorf("logged %d times\n%s", got, w.log())
	}
	if got := len(w.requests); got < 5 || got > 10 {
		t.Errorf("%d requests in ten seconds", got)
	}
	w.answer = nil
	w.pass(time.Minute)
	w.wantReady()
	w.answer = func(Request) (lease.Grant, error) { return lease.Grant{}, errors.New("timeout") }
	w.pass(24 * time.Hour)
	if got := w.count("lease-request-failed"); got != 2 {
		t.Errorf("logged %d times in two outages", got)
	}
}

// A record that cannot be read is logged when it appears, and once, on one line.
func TestQuarantineIsLoggedOnce(t *testing.T) {
	w := readyWorld(t)
	const key = `key "/subnets/\nbad key": `
	for _, reasons := range [][]string{{"odd"}, {"odd"}, {"odd", "garbled", "bad key"}} {
		w.snap.Quarantined = nil
		for _, r := range reasons {
			reason := r
			if r == "bad key" { // such a reason names the key itself
				reason = key + r
			}
			w.snap.Quarantined = append(w.snap.Quarantined, lease.Quarantined{Raw: "/subnets/\n" + r, Reason: reason})
		}
		w.put(vxlanPeer("10.5.77.0-24", 77))
		w.tell()
	}
	logged := w.logged("quarantined")
	if len(logged) != 3 || !strings.Contains(logged[0], `"/subnets/\nodd": odd`) ||
		!strings.Contains(logged[1], `"/subnets/\ngarbled": garbled`) || strings.Count(logged[2], key+"bad key") != 1 ||
		strings.Count(logged[2], key) != 1 {
		t.Errorf("logged %q", logged)
	}
}

// Time that goes back is no news, and moves nothing.
func TestTimeNeverGoesBack(t *testing.T) {
	w := readyWorld(t)
	w.n.Step(w.now.Add(-time.Hour), Input{})
	if !w.n.now.Equal(w.now) {
		t.Errorf("the node's time is %s, want %s", w.n.now, w.now)
	}
}

// The end of an outage of the store is a reason to look at the host, and a new
// snapshot without changes is none.
func TestLooksAfterAnOutage(t *testing.T) {
	w := readyWorld(t)
	looks := func() bool {
		w.n.Step(w.now, Input{View: w.view()})
		return w.n.Ready().Lanes[HostLane].Look != nil
	}
	if looks() {
		t.Error("an equal view makes the node look")
	}
	w.down = true
	w.tell()
	w.down = false
	if !looks() {
		t.Error("the end of the outage makes the node look at nothing")
	}
}

// Two disputes that are more than the calm period apart have nothing to do with
// each other.
func TestCalmEndsADispute(t *testing.T) {
	w := readyWorld(t)
	for range 3 {
		w.overwrite()
		w.pass(calm + time.Minute)
		if got := w.n.lease.dispute.count; got != 1 {
			t.Fatalf("%d disputes are remembered", got)
		}
	}
	if calm != 10*time.Minute {
		t.Errorf("calm is %s, want twice the longest pause before a repair", calm)
	}
}

// Peers whose records the store lost are kept for the time that the log tells,
// noted for operators, and then given up.
func TestLostPeersAreGivenUpInTime(t *testing.T) {
	w := readyWorld(t)
	for i := range byte(3) {
		w.put(vxlanPeer([]string{"10.5.77.0-24", "10.5.78.0-24", "10.5.79.0-24"}[i], 77+i))
	}
	w.tell()
	w.pass(time.Minute)
	full := w.host.Routes.Len()
	w.snap.Leases = nil
	w.rev++
	w.snap.Revision = w.rev
	w.tell()
	w.pass(5*time.Minute - time.Second)
	notes := w.status().Notes
	if w.host.Routes.Len() != full || len(notes) != 1 || !strings.Contains(notes[0], "lost the records of") {
		t.Errorf("%d routes of %d, notes %q", w.host.Routes.Len(), full, notes)
	}
	w.pass(3 * time.Second)
	if w.count("peers-given-up") != 1 || w.host.Routes.Len() >= full || len(w.status().Notes) > 0 {
		t.Errorf("%d routes of %d, notes %q\n%s", w.host.Routes.Len(), full, w.status().Notes, w.log())
	}
}

// A node whose datastore does not answer says why.
func TestReasonOfAnOutage(t *testing.T) {
	w := readyWorld(t)
	w.down = true
	w.tell()
	if s := w.status(); s.Ready || !slices.Contains(s.Reasons, "the datastore does not answer: connection refused") {
		t.Errorf("ready %t, reasons %q", s.Ready, s.Reasons)
	}
}

// A node that has asked for the end of its process does nothing more.
func TestNothingAfterTheExit(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"pigeon"}}`)
	w.tell()
	if w.exit == nil {
		t.Fatalf("no exit\n%s", w.log())
	}
	w.snap.Config = lease.Document{Data: []byte(vxlanConfig), Revision: 200}
	w.n.Step(w.now.Add(time.Minute), Input{View: w.view()})
	r := w.n.Ready()
	if r.Exit == nil || *r.Exit != *w.exit || r.Request != nil || r.Lanes[HostLane].Look != nil {
		t.Errorf("after the exit the node asks for %+v", r)
	}
}

// A status says that the config asks for more than the uplink carries.
func TestNoteOfTheBackend(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","MTU":9000}}`)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	notes := strings.Join(w.status().Notes, "; ")
	if !strings.Contains(notes, "the network config asks for MTU 9000") || len(w.logged("backend-note")) != 1 {
		t.Errorf("notes %q, want the MTU, and one line in the log\n%s", notes, w.log())
	}
}

// A snapshot without a changed lease has no line in the log.
func TestNoLineWithoutAChange(t *testing.T) {
	w := readyWorld(t)
	before := w.count("leases")
	w.rev++
	w.snap.Revision = w.rev
	w.tell()
	if got := w.count("leases"); got != before {
		t.Errorf("%d lines about leases instead of %d\n%s", got, before, w.log())
	}
}

// A conflict with another node's request is logged, and the node takes another subnet.
func TestConflictIsLogged(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.answer = func(r Request) (lease.Grant, error) {
		w.answer = nil
		w.put(vxlanPeer(r.Key.String(), 9)) // has come first
		return lease.Grant{}, nil
	}
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	if got := w.logged("lease-conflict"); len(got) != 1 || !strings.HasSuffix(got[0], "; trying again") {
		t.Errorf("logged %q, want one conflict\n%s", got, w.log())
	}
}

// A network whose config cannot be used waits for an operator, unless an earlier one is in force.
func TestUnusableConfig(t *testing.T) {
	w := newWorld(t, "{")
	if w.n.Pulse().Unusable {
		t.Error("unusable before the datastore has answered")
	}
	w.tell()
	w.pass(time.Second)
	if !w.n.Pulse().Unusable {
		t.Error("usable with a config that is no JSON")
	}
	w.configure(vxlanConfig)
	w.pass(time.Second)
	w.wantReady()
	w.configure("{")
	w.pass(time.Second)
	if w.n.Pulse().Unusable || w.status().Ready {
		t.Errorf("with an earlier config in force: unusable %t, ready %t", w.n.Pulse().Unusable, w.status().Ready)
	}
}

// TestProgrammedSnapshotsOfOneRevision shows a peer in a snapshot of the revision that the host is programmed for: the
// first one with the node's own write lacked it. The status does not count the host as programmed for the second.
func TestProgrammedSnapshotsOfOneRevision(t *testing.T) {
	w := readyWorld(t)
	newest := w.snap.Revision
	w.put(vxlanPeer("10.5.6.0-24", 9))
	w.snap.Revision = newest
	w.tell()
	if s := w.status(); s.Revision != newest || s.Programmed >= newest {
		t.Errorf("programmed revision %d of %d before the look at the new peer", s.Programmed, s.Revision)
	}
	w.pass(time.Second)
	if s := w.status(); s.Programmed != newest {
		t.Errorf("programmed revision %d of %d after the look at the new peer", s.Programmed, s.Revision)
	}
}
