package transition

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/backend/backends"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/event"
)

// A node prepares an encrypting backend before it uses it: it announces its key, and peers exchange keys with it,
// which may take a second try after five seconds. It does not wait longer for the datastore than PrepareMost.
const (
	PrepareFor  = 12 * time.Second
	PrepareMost = time.Minute
)

// Linger is the time from the record that no longer offers a previous backend to the end of its devices: peers that
// have not read the record yet still send by it.
const Linger = time.Minute

// Changed says how a call has changed the set of backends.
type Changed uint8

// The changes of the set.
const (
	Nothing  Changed = iota
	Roles            // the same backends, in other roles
	Backends         // other backends
)

// Began is the moment since which the node's record offers the backend of the network config.
type Began struct {
	Backend string // its identity
	At      time.Time
}

// Saved is the memory of the last run.
type Saved struct {
	Backends []config.Backend // in use, newest first
	Began    Began
	Followed []netip.Prefix // see [backends.Set.Recall]
}

// Machine is the change from one backend to another on this node.
type Machine struct {
	log   *event.Log
	limit time.Duration // how long a previous backend is kept that no config names
	saved Saved

	config  config.Network // in force
	named   []string       // the previous backends that config names, by identity
	set     *backends.Set  // in use; nil: no config yet
	stood   *backends.Set  // whose devices and addresses the host had at a comparison; nil: none
	moments moments
	role    map[string]backends.Role
	lacks   map[string]error // why the host cannot have devices of a backend, by identity
	givenUp map[string]bool  // previous backends that the node goes on without, by identity
	learnt  *lease.Snapshot  // whose records the node has looked through for those that offer an encrypting backend
	use     use
}

// moments are those of the change under way.
type moments struct {
	began  Began
	set    time.Time            // since when the present backend is that of the config in force
	told   time.Time            // since when the node's record announces it; zero: it does not
	bare   time.Time            // since when nothing guards an unencrypted device; zero: something does, or there is none
	silent map[string]time.Time // since when no record of the node offers a previous backend, by identity
}

// New returns a machine without a config.
func New(log *event.Log, limit time.Duration) *Machine {
	m := &Machine{log: log, limit: limit, lacks: map[string]error{}, givenUp: map[string]bool{}}
	m.moments.silent = map[string]time.Time{}
	return m
}

// Resume takes over the memory of the last run.
func (m *Machine) Resume(s Saved) { m.saved, m.moments.began = s, s.Began }

// NotAfter corrects the memory of a run whose clock was ahead: the change does not last longer for that.
func (m *Machine) NotAfter(now time.Time) {
	if m.moments.began.At.After(now) {
		m.moments.began.At = now
	}
}

// Memory returns what the next run has to know.
func (m *Machine) Memory() Saved {
	return Saved{Backends: m.set.Objects(), Began: m.moments.began, Followed: m.set.Followed()}
}

// Began returns the moment since which the node's record offers the present backend.
func (m *Machine) Began() Began { return m.moments.began }

// Set returns the backends in use, with their roles; nil before the first config.
func (m *Machine) Set() *backends.Set { return m.set }

// Changing reports whether a previous backend is in use.
func (m *Machine) Changing() bool { return m.set != nil && len(m.set.Previous()) > 0 }

// Previous returns the backends to keep beside that of a new config: those that the config names, and those of the
// previous config or of the last run, newest first. The present one counts only if peers may know it.
func (m *Machine) Previous(own Own, network config.Network) []config.Backend {
	objects := slices.Clone(network.Formerly)
	switch {
	case m.set != nil && m.maybePublished(own, m.set.Present()):
		return append(objects, m.set.Objects()...)
	case m.set != nil:
		return append(objects, m.set.Objects()[1:]...)
	}
	return append(objects, m.saved.Backends...)
}

// Adopt puts a config in force, with the set opened for it.
func (m *Machine) Adopt(f Facts, network config.Network, set *backends.Set) {
	m.config = network
	m.named, _ = backends.Formerly(network) // the node has refused a config with an error here
	m.put(f, set)
}

// put puts a set of backends in use.
func (m *Machine) put(f Facts, set *backends.Set) {
	t := &m.moments
	set = m.withoutGivenUp(f, set)
	if t.began.Backend != set.Present() {
		t.began = Began{Backend: set.Present()}
	}
	if m.set == nil || m.set.Present() != set.Present() {
		t.set, t.told = f.Now, time.Time{}
	}
	if m.set != nil {
		m.report(m.set, set)
	} else if len(set.Previous()) > 0 {
		m.log.Add(event.Info, "backend-change", fmt.Sprintf("going on with a change of the backend from %s to %s",
			strings.Join(set.Previous(), ", "), set.Present()))
	}
	m.set = set.Recall(m.followed())
	m.learnt = nil
	m.assign(f.Records, m.roles(f))
}

// followed returns the subnets of the peers that have followed to an encrypting backend: see [backends.Set.Recall].
func (m *Machine) followed() []netip.Prefix {
	if m.set == nil {
		return m.saved.Followed
	}
	return m.set.Followed()
}

// report logs the previous backends that come and go.
func (m *Machine) report(before, now *backends.Set) {
	for _, id := range now.Previous() {
		if !slices.Contains(before.Previous(), id) {
			m.log.Add(event.Info, "backend-change", fmt.Sprintf("keeping %s beside %s", id, now.Present()))
		}
	}
	for _, id := range before.Previous() {
		if !now.Has(id) && !m.givenUp[id] {
			m.log.Add(event.Info, "backend-changed", fmt.Sprintf("the change from %s to %s is over", id, now.Present()))
		}
	}
}

// Step goes on with a change of the backend.
func (m *Machine) Step(f Facts) Changed {
	t := &m.moments
	if t.began.At.IsZero() && f.Own.offers(m.set.Present()) {
		t.began.At = f.Now
	}
	if !m.Changing() {
		return Nothing
	}
	m.learn(f.Records)
	if f.Own.Held == nil || !m.set.Announces(f.Own.Held) {
		t.told = time.Time{}
	} else if t.told.IsZero() {
		t.told = f.Now
	}
	changed := Nothing
	if r := m.roles(f); !maps.Equal(r, m.role) {
		changed = Roles
		m.assign(f.Records, r)
	}
	changed = max(changed, m.endPrevious(f))
	return max(changed, m.endUnguarded(f))
}

// learn remembers the subnets of the peers that offer an encrypting backend.
func (m *Machine) learn(r Records) {
	if m.learnt != r.Snapshot {
		m.learnt = r.Snapshot
		m.set = m.set.Learn(r.Source.Env(), r.Source.Undisputed(), r.Source.Peers())
	}
}

// endPrevious removes the previous backends that end, a while after the node's record has ceased to offer them.
func (m *Machine) endPrevious(f Facts) Changed {
	silent := m.moments.silent
	maps.DeleteFunc(silent, func(id string, _ time.Time) bool { return m.keeps(f.Own, id) })
	var ended []string
	for _, id := range m.set.Previous() {
		if m.keeps(f.Own, id) || f.Own.Held == nil {
			continue
		}
		since, known := silent[id]
		if !known {
			silent[id] = f.Now
		} else if !f.Now.Before(since.Add(Linger)) {
			ended = append(ended, id)
			delete(silent, id)
		}
	}
	return m.drop(f, ended)
}

// drop puts the set without some previous backends in use.
func (m *Machine) drop(f Facts, ids []string) Changed {
	if len(ids) == 0 {
		return Nothing
	}
	set := m.set
	for _, id := range ids {
		set = set.Without(id)
	}
	m.put(f, set)
	return Backends
}

// keeps reports whether a previous backend does not end, or peers may send by it.
func (m *Machine) keeps(own Own, id string) bool {
	return !m.role[id].Ending || m.maybePublished(own, id)
}

// Wake names the moments at which time alone goes on with a change.
func (m *Machine) Wake(now time.Time, consider func(time.Time)) {
	t := &m.moments
	if !m.Changing() {
		return
	}
	if !t.began.At.IsZero() {
		consider(t.began.At.Add(Linger))
	}
	consider(t.set.Add(PrepareMost))
	if !t.bare.IsZero() {
		consider(t.bare.Add(GuardWithin))
	}
	if !t.told.IsZero() {
		consider(t.told.Add(PrepareFor))
	}
	for _, id := range m.set.Previous() {
		if at, _ := m.until(now, id); !at.IsZero() {
			consider(at)
		}
		if at, ok := t.silent[id]; ok {
			consider(at.Add(Linger))
		}
	}
}
