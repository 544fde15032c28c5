package transition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/backend/backends"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/node/event"
)

// GuardWithin is the longest time for which a node waits for the guard of an unencrypted device.
const GuardWithin = time.Minute

// Stands notes that the host has all devices and addresses of the set.
func (m *Machine) Stands() { m.stood = m.set.Open() }

// A host may be unable to have a previous backend any longer: the daemon's new container has no /dev/net/tun, or
// the host has booted a kernel without the module. Such a backend is of no use, and must not keep the node from
// being ready: a rolling update would stop at its first node, and with it the change on all others. So
// once everything of the present backend stands, the node goes on without the previous one, until its next start.
// Peers that send by no other backend reach the node as soon as they follow the change.

// Lacks notes why the host cannot make a device.
func (m *Machine) Lacks(op dataplane.Op, device string, err error) {
	link, isLink := op.Object.(dataplane.Link)
	_, isProxy := op.Object.(dataplane.Proxy)
	again := isLink && op.Verb == dataplane.Replace && link.Kind() != dataplane.LinkWireGuard // it is deleted and created
	if op.Verb == dataplane.Delete || !isLink && !isProxy || again {
		return
	}
	id := m.set.Owner(device)
	lacking, present := errors.Is(err, driver.ErrUnsupported) || errors.Is(err, driver.ErrDenied), id == m.set.Present()
	if present && m.set.Encrypts(id) {
		lacking = lacking && op.Verb == dataplane.Create // otherwise it has its device
	} else if present {
		lacking = true // another program may have its port
	}
	if lacking {
		m.lacks[id] = err
	}
}

// GiveUp ends the previous backends that the host cannot have, unless other devices of the node differ from what is
// desired. It is given the devices of the node's own objects that differ.
func (m *Machine) GiveUp(f Facts, differ []string) Changed {
	present := m.set.Present()
	if !slices.ContainsFunc(differ, func(device string) bool { return m.set.Owner(device) == present }) {
		delete(m.lacks, present)
	}
	stands := !slices.ContainsFunc(differ, func(device string) bool {
		id := m.set.Owner(device)
		return id == present || m.lacks[id] == nil
	})
	var ids []string
	for _, id := range m.set.Previous() {
		if why := m.lacks[id]; why != nil && stands {
			m.giveUp(id, fmt.Sprintf("this host cannot have it: %v", why))
			ids = append(ids, id)
		}
		delete(m.lacks, id)
	}
	return m.drop(f, ids)
}

// giveUp notes and logs that the node goes on without a previous backend.
func (m *Machine) giveUp(id, why string) {
	m.givenUp[id] = true
	m.log.Add(event.Warning, "backend-given-up", fmt.Sprintf("going on without %s beside %s: %s; peers that have not "+
		"followed the change reach this node once they do", id, m.set.Present(), why))
}

// withoutGivenUp returns the set without the previous backends that the node has given up. A config that names such
// a backend makes the node try it again. A network beside others frees its previous devices at once, unless the config
// names the previous backend: another network may want them in turn for its own. Ports it frees anyway.
func (m *Machine) withoutGivenUp(f Facts, set *backends.Set) *backends.Set {
	if f.Beside {
		set = set.WithoutAsides()
	}
	delete(m.givenUp, set.Present())
	for _, id := range set.Previous() {
		if m.givenUp[id] || f.Beside && !m.isNamed(id) {
			set = set.Without(id)
		}
	}
	return set
}

// Guards returns the packets of the underlay that only some hosts may send to this one, by the family of
// their outer header. A node without an unencrypted device beside an encrypting one has none.
func (m *Machine) Guards(r Records) (by [2][]firewall.Guard) {
	if r.Snapshot == nil || !m.Changing() {
		return by
	}
	return m.usedWith(r).guards
}

// Guarded reports whether the host's packet filter, as last read, holds all guards of the moment, so
// that an unencrypted device may be open. The addresses that it admits may be those of a moment ago.
func (m *Machine) Guarded(f Facts) bool {
	guards := m.Guards(f.Records)
	for _, family := range cidr.Families {
		network := m.config.Of(family).Network
		switch {
		case len(guards[family]) == 0, !f.Records.Source.Self().Key.Of(family).IsValid():
			continue
		case f.Host.Filter == nil, !firewall.InForce(f.Host.Filter, family, network, guards[family]):
			return false
		}
	}
	return true
}

// closed returns the previous backends whose devices the node must not have before their guards are in force. Devices
// that exist stay, since peers use them, until the host has turned out to lack a guard that the node cannot make.
func (m *Machine) closed(f Facts) map[string]bool {
	closed, have := map[string]bool{}, f.Host.Have
	if have == nil || f.Records.Source.Self().Key.IsValid() && m.Guarded(f) {
		return closed
	}
	exists := func(link string) bool { _, ok := have.Links[link]; return ok }
	for _, id := range m.set.Guarded() {
		if f.Host.FilterFails || !slices.ContainsFunc(m.set.Links(id), exists) {
			closed[id] = true
		}
	}
	return closed
}

// endUnguarded ends the previous backends whose guards the host cannot hold.
func (m *Machine) endUnguarded(f Facts) Changed {
	t, set := &m.moments, m.set
	switch {
	case len(set.Guarded()) == 0, m.Guarded(f):
		t.bare = time.Time{}
		return Nothing
	case t.bare.IsZero():
		t.bare = f.Now
	}
	if f.Now.Before(t.bare.Add(GuardWithin)) {
		return Nothing
	}
	why := strings.Join(f.Host.FilterNotes, "; ")
	if f.Host.Filter == nil {
		why = "its packet filter cannot be read"
	}
	for _, id := range set.Guarded() {
		m.giveUp(id, "this host cannot keep other hosts from this unencrypted backend: "+why)
	}
	t.bare = time.Time{}
	return m.drop(f, set.Guarded())
}
