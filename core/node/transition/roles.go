package transition

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/backend/backends"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/event"
)

// roles finds out which backends end, and which the host cannot use now.
func (m *Machine) roles(f Facts) map[string]backends.Role {
	roles := map[string]backends.Role{}
	previous, present := m.set.Previous(), m.set.Present()
	at := m.moments.began.At
	closed, admits := m.closed(f), at.IsZero() || f.Now.Before(at.Add(Linger))
	for _, id := range previous {
		_, ends := m.until(f.Now, id)
		roles[id] = backends.Role{Ending: ends, Closed: closed[id], Admits: admits}
	}
	for _, id := range append(previous, present) {
		r := roles[id]
		// Another program may have the port of a packet path that does not stand.
		r.Down = len(previous) > 0 && m.set.IsPath(id) && !m.stood.Has(id) || m.lacks[id] != nil
		if id == present && m.set.Encrypts(id) && !at.IsZero() {
			r.Down = false // peers that have followed get nothing in the clear, even if its device is gone for good
		}
		if id == present && m.prepares(f) {
			r.Down, r.Announced = false, true
		}
		roles[id] = r
	}
	return roles
}

// assign sets the roles of the backends in use.
func (m *Machine) assign(records Records, roles map[string]backends.Role) {
	for _, id := range m.set.Previous() {
		if roles[id].Ending && !m.role[id].Ending {
			m.reportEnd(records, id)
		}
	}
	m.role, m.set = roles, m.set.In(roles)
}

// prepares reports whether the node only announces the present backend so far. A node that peers do not know yet, and
// one that has offered it, does not. The node's memory says the latter too: another program may write its record.
func (m *Machine) prepares(f Facts) bool {
	t := &m.moments
	last, ok := f.Records.Source.Last()
	if !ok || !t.began.At.IsZero() || !m.set.Prepares(&last) || !f.Now.Before(t.set.Add(PrepareMost)) {
		return false
	}
	return t.told.IsZero() || f.Now.Before(t.told.Add(PrepareFor))
}

// until returns the moment at which a previous backend ends by itself, or zero, and whether it ends now. The operator's
// word counts, except that a change to an encrypting backend has a limit. A node that has not begun with the present
// backend keeps the previous one.
func (m *Machine) until(now time.Time, id string) (at time.Time, ends bool) {
	named, began := m.isNamed(id), m.moments.began.At
	if m.config.Formerly != nil && !named {
		return now, true
	}
	encrypts := m.set.Encrypts(m.set.Present()) && !m.set.Encrypts(id)
	if named && !encrypts || began.IsZero() {
		return time.Time{}, false
	}
	at = began.Add(m.limit)
	return at, !now.Before(at)
}

// isNamed reports whether the config names a previous backend.
func (m *Machine) isNamed(id string) bool { return slices.Contains(m.named, id) }

// reportEnd logs that a previous backend begins to end, and names the peers that offer nothing else.
func (m *Machine) reportEnd(r Records, id string) {
	why := "the network config does not name it in Formerly"
	if m.config.Formerly == nil || m.isNamed(id) {
		why = fmt.Sprintf("%s have passed since this node began with the present one", m.limit)
	}
	text := fmt.Sprintf("the previous backend %s ends beside %s: %s", id, m.set.Present(), why)
	behind := m.behind(r)
	if len(behind) == 0 {
		m.log.Add(event.Info, "backend-ends", text)
		return
	}
	m.log.Add(event.Warning, "backend-ends", fmt.Sprintf("%s; %d peers have not followed: %s", text, len(behind),
		firstOf(behind)))
}

// firstOf names the first subnets of a list.
func firstOf(keys []lease.Key) string {
	const most = 10
	var texts []string
	for _, key := range keys[:min(most, len(keys))] {
		texts = append(texts, key.String())
	}
	if len(keys) > most {
		texts = append(texts, "...")
	}
	return strings.Join(texts, ", ")
}
