package scenarios

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
)

// start n1 n2|all
func (s *Session) start(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	words := a.rest()
	if err := a.done(); err != nil {
		return "", err
	}
	return "", s.each(words, func(name string, n Node) error {
		s.started[name] = true
		return n.Start(nil)
	})
}

// daemonVerb does one thing to the daemons named, after which settle does or
// does not wait for them.
func daemonVerb(do func(Node) error, away bool) verb {
	return func(s *Session, d *datadriven.TestData) (string, error) {
		a := newArgs(d)
		words := a.rest()
		if err := a.done(); err != nil {
			return "", err
		}
		return "", s.each(words, func(name string, n Node) error {
			s.started[name] = !away
			return do(n)
		})
	}
}

// restart n1|all [kill]
func (s *Session) restart(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	kill := a.flag("kill")
	words := a.rest()
	if err := a.done(); err != nil {
		return "", err
	}
	return "", s.each(words, func(name string, n Node) error {
		end := n.Stop
		if kill {
			end = n.Kill
		}
		if err := end(); err != nil {
			return err
		}
		s.started[name] = true
		return n.Start(nil)
	})
}

// settle [within=30s]: every started node is ready, knows all the others, and
// its pods are what its subnet file says.
func (s *Session) settle(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	within := settleBound
	a.duration("within", &within)
	if err := a.done(); err != nil {
		return "", err
	}
	if err := s.world.Until(within, s.settled); err != nil {
		return "", fmt.Errorf("not settled within %s: %w", within, err)
	}
	return "", s.each(s.running(), func(_ string, n Node) error { return n.SyncPods() })
}

func (s *Session) running() []string {
	var names []string
	for _, name := range s.top.nodeNames() {
		if s.started[name] {
			names = append(names, name)
		}
	}
	return names
}

func (s *Session) settled() error {
	records, err := s.world.Store().Records()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range s.running() {
		if err := s.nodeSettled(name, records); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Session) nodeSettled(name string, records []Record) error {
	n, err := s.world.Node(name)
	if err != nil {
		return err
	}
	status, err := n.Status()
	if err != nil {
		return err
	}
	if !status.Ready {
		return fmt.Errorf("%s: %s", status.Phase, strings.Join(status.Reasons, "; "))
	}
	own, newest, others := false, int64(0), 0
	for _, r := range records {
		newest = max(newest, r.Modified)
		l, ok := r.lease()
		switch {
		case !ok:
		case s.owner(l) == name:
			own = true
		default:
			others++
		}
	}
	if !own {
		return errors.New("holds no lease")
	}
	if status.Revision < newest || status.Programmed != status.Revision {
		return fmt.Errorf("is at revision %d, programmed %d, the store at %d", status.Revision, status.Programmed, newest)
	}
	if status.Peers != others {
		return fmt.Errorf("knows %d of %d peers", status.Peers, others)
	}
	return nil
}

// lease decodes a record; false if it is not one.
func (r Record) lease() (lease.Lease, bool) {
	key, err := lease.ParseKey(r.Name)
	if err != nil {
		return lease.Lease{}, false
	}
	attrs, err := lease.DecodeAttrs([]byte(r.Value))
	if err != nil {
		return lease.Lease{}, false
	}
	return lease.Lease{Key: key, Attrs: attrs, ModRevision: r.Modified}, true
}

// owner names the node whose public address a lease carries, or the address
// itself if it is nobody's here.
func (s *Session) owner(l lease.Lease) string {
	ip := l.Attrs.PublicIP
	if !ip.IsValid() {
		ip = l.Attrs.PublicIPv6
	}
	for i, name := range s.top.nodeNames() {
		if s.address(i, cidr.FamilyOf(ip)) == ip {
			return name
		}
	}
	return ip.String()
}

// address is the present underlay address of the i-th node.
func (s *Session) address(i int, f cidr.Family) netip.Addr {
	name := s.top.nodeNames()[i]
	if moved, ok := s.moved[name]; ok && f == cidr.FamilyOf(moved) {
		return moved
	}
	return underlayAddr(f, s.top.segment(i), i+1).Addr()
}

// wait n1 ready|not-ready|fenced|stale|synced|exited [within=30s] [status=1]
// wait leases=3 [within=30s]
func (s *Session) wait(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	within, leases, status := settleBound, -1, 0
	a.duration("within", &within)
	a.integer("leases", &leases)
	a.integer("status", &status)
	var cond func() error
	if leases >= 0 {
		cond = func() error { return s.haveLeases(leases) }
	} else {
		name, what := a.word("node"), a.word("condition")
		cond = func() error { return s.nodeIs(name, what, status) }
	}
	if err := a.done(); err != nil {
		return "", err
	}
	return "", s.world.Until(within, cond)
}

func (s *Session) haveLeases(want int) error {
	records, err := s.world.Store().Records()
	if err != nil {
		return err
	}
	if len(records) != want {
		return fmt.Errorf("the store holds %d leases", len(records))
	}
	return nil
}

func (s *Session) nodeIs(name, what string, exit int) error {
	n, err := s.world.Node(name)
	if err != nil {
		return err
	}
	if what == "exited" {
		got, ok := n.Exited()
		if !ok || got != exit {
			return fmt.Errorf("%s has not exited with status %d (exited: %t, status %d)", name, exit, ok, got)
		}
		return nil
	}
	st, err := n.Status()
	if err != nil {
		return err
	}
	is, known := map[string]bool{"ready": st.Ready, "not-ready": !st.Ready, "fenced": st.Fenced, "stale": st.Stale,
		"synced": st.Synced, "quarantined": st.Quarantined > 0}[what]
	if !known {
		return fmt.Errorf("unknown condition %q", what)
	}
	if !is {
		return fmt.Errorf("%s is not %s: phase %s, %s", name, what, st.Phase, strings.Join(st.Reasons, "; "))
	}
	return nil
}

// pass 10s: time goes by. For outages that must last longer than something.
func (s *Session) pass(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	length, err := time.ParseDuration(a.word("duration"))
	if err = errors.Join(err, a.done()); err != nil {
		return "", err
	}
	// A condition that never holds: what is waited for is the time itself.
	_ = s.world.Until(length, func() error { return errors.New("time has not passed yet") })
	return "", nil
}

// log n1 kind: how often the daemon logged events of that kind.
func (s *Session) log(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	name, kind := a.word("node"), a.word("kind")
	if err := a.done(); err != nil {
		return "", err
	}
	n, err := s.world.Node(name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %d", kind, strings.Count(n.Log(), " "+kind+": ")), nil
}
