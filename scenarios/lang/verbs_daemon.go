package lang

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
)

// start performs "start n1 n2|all".
func (s *Session) start(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	words := a.rest()
	if err := a.done(); err != nil {
		return "", err
	}
	return "", s.each(words, func(name string, n Node) error {
		if !n.Running() { // a paused one stays paused
			s.started[name] = true
		}
		return n.Start(nil)
	})
}

// daemonVerb returns a verb that does one thing to the named daemons, and marks
// whether settle waits for them afterwards.
func daemonVerb(do func(*Session, Node) error, mark func(*Session, string)) verb {
	return func(s *Session, d *datadriven.TestData) (string, error) {
		a := newArgs(d)
		words := a.rest()
		if err := a.done(); err != nil {
			return "", err
		}
		return "", s.each(words, func(name string, n Node) error {
			mark(s, name)
			return do(s, n)
		})
	}
}

// ends marks a daemon as away until it is started.
func (s *Session) ends(name string) {
	s.started[name] = false
	delete(s.halted, name)
}

// halts marks a daemon as away until it is resumed or started.
func (s *Session) halts(name string) {
	s.halted[name] = s.halted[name] || s.started[name]
	s.started[name] = false
}

// resumes ends the mark of halts. A daemon that has ended stays away.
func (s *Session) resumes(name string) {
	s.started[name] = s.started[name] || s.halted[name]
	delete(s.halted, name)
}

// restart performs "restart n1|all [kill]".
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

// settle performs "settle [n1 n2] [within=30s]". It waits until every started
// node, or each named one, is ready, knows all the others, and its pod follows
// its subnet file.
func (s *Session) settle(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	within := settleBound
	a.duration("within", &within)
	names := a.rest()
	if err := a.done(); err != nil {
		return "", err
	}
	if len(names) == 0 {
		names = s.running()
	}
	s.endpointsSeen = map[string]bool{}
	if err := s.until(within, func() error { return s.settled(names) }); err != nil {
		return "", fmt.Errorf("not settled within %s: %w", within, err)
	}
	for _, name := range names {
		delete(s.stateLost, name)
	}
	s.letAgree(names)
	if err := s.until(within, func() error { return s.tunnelled(names) }); err != nil {
		return "", fmt.Errorf("not settled within %s: %w", within, err)
	}
	return "", nil
}

// until waits for a condition, on a slow world for longer.
func (s *Session) until(within time.Duration, cond func() error) error {
	if slow, ok := s.World().(Slow); ok {
		within = slow.Stretch(within)
	}
	return s.world.Until(within, cond)
}

func (s *Session) running() []string {
	var names []string
	for _, name := range s.top.NodeNames() {
		if s.started[name] {
			names = append(names, name)
		}
	}
	return names
}

func (s *Session) settled(names []string) error {
	records, err := s.world.Store().Records()
	if err != nil {
		return err
	}
	held := s.owned(records)
	var errs []error
	for _, name := range names {
		if err := s.nodeSettled(name, held); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	if len(errs) == 0 {
		return s.tunnelled(names)
	}
	return errors.Join(errs...)
}

func (s *Session) nodeSettled(name string, records []ownedRecord) error {
	n, err := s.world.Node(name)
	if err != nil {
		return err
	}
	// A changed subnet file moves the pods, and readiness may wait for that.
	file := n.SubnetFile()
	if file != "" {
		if err := s.syncPods(n); err != nil {
			return err
		}
	}
	status, err := n.Status()
	if err != nil {
		return err
	}
	if !status.Ready {
		return fmt.Errorf("%s: %s", status.Phase, strings.Join(status.Reasons, "; "))
	}
	own := false
	newest := int64(0)
	others, forged := 0, 0
	for _, r := range records {
		newest = max(newest, r.modified)
		switch {
		case !r.valid:
			continue
		case s.isForged(r.lease):
			forged++ // a node may know it as a peer, or refuse it, whatever address it names
		case r.owner == name:
			own = true
		default:
			others++
		}
	}
	if !own {
		return errors.New("holds no lease")
	}
	if s.top.Kube {
		newest = 0 // the node misses a change that was undone between two looks
		if i, ok := n.(Informed); ok && !i.Current() {
			return errors.New("does not know all that the store holds")
		}
	}
	if status.Revision < newest || status.Programmed != status.Revision {
		return fmt.Errorf("is at revision %d, programmed %d, the store at %d", status.Revision, status.Programmed, newest)
	}
	if status.Peers < others || status.Peers > others+forged {
		return fmt.Errorf("knows %d of %d peers", status.Peers, others)
	}
	if n.SubnetFile() != file {
		return errors.New("has just changed its subnet file")
	}
	if file == "" { // another program has removed it, and the node has not looked since
		return errors.New("has no subnet file")
	}
	return s.converged(name, n, records)
}

// syncPods makes the node's pod follow its subnet file.
func (s *Session) syncPods(n Node) error {
	h, err := able[PodHost](s, n)
	if err != nil {
		return err
	}
	return h.SyncPods()
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
	return lease.Lease{Key: key, Attrs: attrs, CreateRevision: r.Created, ModRevision: r.Modified}, true
}

// ownedRecord is a record of the store, decoded once for all nodes that are judged by it.
type ownedRecord struct {
	modified int64 // revision
	lease    lease.Lease
	valid    bool   // it decodes
	owner    string // of a valid record: see [Session.owner]
}

// owned decodes records and names their owners.
func (s *Session) owned(records []Record) []ownedRecord {
	all := make([]ownedRecord, len(records))
	for i, r := range records {
		l, ok := r.lease()
		all[i] = ownedRecord{modified: r.Modified, lease: l, valid: ok}
		if ok {
			all[i].owner = s.owner(l)
		}
	}
	return all
}

// owner names the node whose public address a lease carries: the IPv4 address, or
// the IPv6 address while IPv4 is off. It returns the address itself if no node has it.
func (s *Session) owner(l lease.Lease) string {
	ip := l.Attrs.PublicIP
	v6 := l.Attrs.PublicIPv6
	if !ip.IsValid() || v6.IsValid() && !slices.Contains(s.families, cidr.V4) {
		ip = v6
	}
	for i := range s.top.Nodes {
		if s.address(i, cidr.FamilyOf(ip)) == ip {
			return nodeName(i)
		}
		if published, ok := s.published(nodeName(i), cidr.FamilyOf(ip)); ok && published == ip {
			return nodeName(i)
		}
	}
	return ip.String()
}

// hostFamily names one of the two addresses of a host.
type hostFamily struct {
	host   string
	family cidr.Family
}

// address returns the present underlay address of the i-th node.
func (s *Session) address(i int, f cidr.Family) netip.Addr {
	if moved, ok := s.moved[hostFamily{nodeName(i), f}]; ok {
		return moved
	}
	return UnderlayAddr(f, s.top.Segment(i), i+1).Addr()
}

// wait waits until a condition holds:
//
//	wait n1 ready|not-ready|fenced|stale|synced|quarantined|programmed [within=30s]
//	wait n1 exited [status=1]
//	wait n1 not-ready because=TEXT  a reason holds that text
//	wait n1 problem=TEXT            the status reports such a problem of a peer
//	wait n1 note=TEXT               the status has such a note for operators
//	wait n1 mtu=1350             the subnet file holds that MTU
//	wait n1 no-subnet-file       there is no subnet file
//	wait n1 log=lease-lost [count=1]  the daemon has logged that kind that often
//	wait leases=3                the store holds that many records
func (s *Session) wait(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	w := waiting{count: 1, leases: -1}
	within := settleBound
	a.duration("within", &within)
	a.integer("leases", &w.leases)
	a.integer("status", &w.status)
	a.integer("mtu", &w.mtu)
	a.integer("count", &w.count)
	a.text("log", &w.log)
	a.text("because", &w.because)
	a.text("problem", &w.problem)
	a.text("note", &w.note)
	if w.leases < 0 {
		w.node = a.word("node")
		if w.mtu == 0 && w.log == "" && w.problem == "" && w.note == "" {
			w.what = a.word("condition")
		}
	}
	if err := a.done(); err != nil {
		return "", err
	}
	return "", s.until(within, func() error { return s.holds(w) })
}

// waiting describes a condition to wait for.
type waiting struct {
	node, what, log  string
	because, problem string
	note             string
	leases, status   int
	mtu, count       int
}

func (s *Session) holds(w waiting) error {
	if w.leases >= 0 {
		return s.haveLeases(w.leases)
	}
	n, err := s.world.Node(w.node)
	if err != nil {
		return err
	}
	switch {
	case w.mtu > 0:
		if !strings.Contains(n.SubnetFile(), fmt.Sprintf("FLANNEL_MTU=%d\n", w.mtu)) {
			return fmt.Errorf("the subnet file says\n%s", n.SubnetFile())
		}
	case w.log != "":
		if got := logged(n, w.log); got < w.count {
			return fmt.Errorf("%s logged %d times", w.log, got)
		}
	case w.what == "exited":
		p, err := able[Process](s, n)
		if err != nil {
			return err
		}
		if got, ok := p.Exited(); !ok || got != w.status {
			return fmt.Errorf("%s has not exited with status %d (exited: %t, status %d)", w.node, w.status, ok, got)
		}
	case w.what == "no-subnet-file":
		if file := n.SubnetFile(); file != "" {
			return fmt.Errorf("the subnet file says\n%s", file)
		}
	case w.what == "killed":
		if n.Running() {
			return fmt.Errorf("%s runs", w.node)
		}
	default:
		return nodeIs(n, w)
	}
	return nil
}

// logged counts the events of a kind in a daemon's log.
func logged(n Node, kind string) int { return strings.Count(n.Log(), " "+kind+": ") }

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

// nodeIs checks conditions that the daemon's status shows.
func nodeIs(n Node, w waiting) error {
	st, err := n.Status()
	if err != nil {
		return err
	}
	if problems := strings.Join(st.Problems, "; "); !strings.Contains(problems, w.problem) {
		return fmt.Errorf("no problem is about %q: %s", w.problem, problems)
	}
	if notes := strings.Join(st.Notes, "; "); !strings.Contains(notes, w.note) {
		return fmt.Errorf("no note is about %q: %s", w.note, notes)
	}
	reasons := strings.Join(st.Reasons, "; ")
	if !strings.Contains(reasons, w.because) {
		return fmt.Errorf("no reason is about %q: %s", w.because, reasons)
	}
	if w.what == "" {
		return nil
	}
	is, known := map[string]bool{
		"ready": st.Ready, "not-ready": !st.Ready, "fenced": st.Fenced, "stale": st.Stale, "synced": st.Synced,
		"quarantined": st.Quarantined > 0, "programmed": st.Programmed > 0 && st.Programmed == st.Revision,
	}[w.what]
	if !known {
		return fmt.Errorf("unknown condition %q", w.what)
	}
	if !is {
		return fmt.Errorf("not %s: phase %s, %s", w.what, st.Phase, reasons)
	}
	return nil
}

// pass performs "pass 10s": it lets time go by, for outages that must last
// longer than a timeout.
func (s *Session) pass(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	length, err := time.ParseDuration(a.word("duration"))
	err = errors.Join(err, a.done())
	if err != nil {
		return "", err
	}
	s.letPass(length)
	return "", nil
}

// letPass lets time go by: its condition never holds.
func (s *Session) letPass(length time.Duration) {
	_ = s.world.Until(length, func() error { return errors.New("time has not passed yet") })
}

// log performs "log n1 kind". It prints how often the daemon has logged events
// of that kind.
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
	return fmt.Sprintf("%s: %d", kind, logged(n, kind)), nil
}

// pause performs "pause n1|all".
func pause(s *Session, n Node) error {
	p, err := able[Process](s, n)
	if err != nil {
		return err
	}
	return p.Pause()
}

// resume performs "resume n1|all".
func resume(s *Session, n Node) error {
	p, err := able[Process](s, n)
	if err != nil {
		return err
	}
	return p.Resume()
}
