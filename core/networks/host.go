package networks

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// Host knows the networks of one host, and decides which of them it can run side by
// side. A network that runs keeps what it has. Of those that begin, the one with the
// older config wins, so the outcome does not depend on which of them is read first.
// What a network has by a former config it keeps until its node has removed it.
// Several goroutines may use it at once.
type Host struct {
	mu      sync.Mutex
	members map[string]*member
	report  func(text string) // takes a decision that operators should know; nil: no caller asks
}

// member is a network of the host.
type member struct {
	known   bool // its config, or that it has none, has been read
	decided bool // all were known at once since it is a member
	doc     lease.Document
	claim   *claim // what it takes of the host; nil: nothing
	former  *claim // what its former run took; nil: not known
	held    claim  // what its node has or may have on the host, also by former configs
	rests   bool   // the node's host is as desired, so it may keep what is held for long
	refused error  // why doc cannot be used beside the others
	changed func() // tells that the view may be another; nil: no caller asks

	swaps bool // it removes what it has, and begins anew
}

// NewHost returns a host with these networks.
func NewHost(names ...string) *Host {
	h := &Host{members: map[string]*member{}}
	for _, name := range names {
		h.Join(name, nil)
	}
	return h
}

// Join adds a network. State is the content of its state file, nil without one: the objects of the former
// run are still on the host.
func (h *Host) Join(name string, state []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &member{}
	if former, err := node.SavedMarks(state); err == nil {
		m.held = claim{former.Networks, former.Links, former.Ports}
		if c, err := claimOf(former.Config); err == nil {
			m.former = &c
		}
	}
	h.members[name] = m
}

// Hold takes in what the node of a network has on the host. Others may have what it has given up.
func (h *Host) Hold(name string, now node.Holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, held := h.members[name], claim{now.Networks, now.Links, now.Ports}
	if m == nil {
		return
	}
	news := !m.held.equal(held) || now.AtRest && !m.rests && h.refuses()
	m.held, m.rests = held, now.AtRest
	if news {
		h.decide()
	}
}

// refuses reports whether the config of any network is refused. Otherwise it does not matter whether nodes are at rest.
func (h *Host) refuses() bool {
	for _, m := range h.members {
		if m.refused != nil {
			return true
		}
	}
	return false
}

// Leave removes a network. The others may have what it had.
func (h *Host) Leave(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.members, name)
	h.decide()
}

// Report names a function that gets a line about each decision that operators should know. It must neither wait
// nor call the host.
func (h *Host) Report(report func(text string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.report = report
}

// Follow names a function to call when View may return something else for a network
// because of the others. It must neither wait nor call the host.
func (h *Host) Follow(name string, changed func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members[name].changed = changed
}

// View takes in a network's view of the datastore and returns the view for its node:
// with what the node has to know of the other networks, without a snapshot until the
// configs of all networks are known, and without the backends in records that other networks of the
// host are in the way of.
func (h *Host) View(name string, v lease.View) lease.View {
	if v.Snapshot == nil {
		return v
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.members[name]
	if m == nil {
		return v // it has left the host
	}
	if doc := v.Snapshot.Config; !m.known || doc.Revision != m.doc.Revision || string(doc.Data) != string(m.doc.Data) {
		if m.swaps {
			h.endSwaps()
		}
		m.known, m.doc = true, doc
		h.decide()
	}
	if missing := h.unknown(); !m.decided && len(missing) > 0 {
		return lease.View{Err: fmt.Errorf("the config of network %s is not yet known", strings.Join(missing, ", "))}
	}
	v.Beside = &lease.Beside{Refused: m.refused, Resumes: m.refused != nil && m.claim != nil, Anew: m.swaps}
	v.Beside.Others, v.Beside.Devices = h.others(name)
	return v
}

// Gone ends the claim of a network that has left the host.
func (h *Host) Gone(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.members[name]
	m.claim, m.former = nil, nil
	m.held, m.swaps = claim{}, false
	h.decide()
}

// unknown returns the networks whose config has not been read, sorted.
func (h *Host) unknown() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(h.members)) {
		if !h.members[name].known {
			names = append(names, name)
		}
	}
	return names
}

// others returns the address space and the devices of the other networks that may run, sorted.
func (h *Host) others(name string) (prefixes []netip.Prefix, devices []string) {
	for other, m := range h.members {
		if other != name && m.claim != nil {
			prefixes = append(prefixes, m.claim.prefixes...)
			devices = append(devices, m.claim.devices...)
		}
	}
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	slices.Sort(devices)
	return prefixes, devices
}

// decide chooses the networks to run, once all are known. A claim that one network
// gives up may serve another, so it goes on until nothing changes.
func (h *Host) decide() {
	if len(h.unknown()) > 0 {
		return
	}
	names := slices.SortedFunc(maps.Keys(h.members), h.byAge)
	for changed := true; changed; {
		changed = false
		for _, name := range names {
			if h.settle(name) {
				changed = true
			}
		}
	}
	h.beginSwaps(names)
	for _, name := range names {
		m := h.members[name]
		m.decided = true
		if m.changed != nil {
			m.changed()
		}
	}
}

// byAge compares the configs of two networks, the older one first.
func (h *Host) byAge(a, b string) int {
	return cmp.Or(cmp.Compare(h.members[a].doc.Revision, h.members[b].doc.Revision), cmp.Compare(a, b))
}

// settle decides about one network, and reports whether its claim has changed. With a
// config that no node can use, or without any, the network keeps what it has until it
// is gone. One whose config is refused when it begins goes on with that of its former run, and so does one
// that begins anew, until it is gone.
func (h *Host) settle(name string) (changed bool) {
	m := h.members[name]
	m.refused = nil
	if len(m.doc.Data) == 0 {
		return false
	}
	wants, err := claimOf(m.doc.Data)
	if err != nil {
		return false
	}
	m.refused = h.refusal(name, wants)
	switch {
	case m.refused == nil && !m.swaps:
		return m.take(wants)
	case m.claim == nil && m.former != nil && h.refusal(name, *m.former) == nil:
		return m.take(*m.former)
	}
	return false
}

// take gives the member a claim, and reports whether it is another one.
func (m *member) take(wants claim) (changed bool) {
	if m.claim != nil && m.claim.equal(wants) {
		return false
	}
	if m.claim != nil { // its node may make objects by it before it hears of the new one
		m.held.devices = append(slices.Clone(m.held.devices), m.claim.devices...)
		m.held.prefixes = append(slices.Clone(m.held.prefixes), m.claim.prefixes...)
		m.held.ports = append(slices.Clone(m.held.ports), m.claim.ports...)
		m.rests = false
	}
	m.claim = &wants
	return true
}

// refusal returns why a network cannot have a claim beside the others; nil: it can. A network that begins anew
// has given up what it had, and what it is about to get no younger one takes.
func (h *Host) refusal(name string, wants claim) error {
	for _, other := range slices.Sorted(maps.Keys(h.members)) {
		if other == name {
			continue
		}
		m := h.members[other]
		if err := m.refuses(other, name, wants); err != nil {
			return err
		}
		if !m.swaps || h.byAge(other, name) > 0 {
			continue
		}
		if theirs, err := claimOf(m.doc.Data); err == nil {
			if why := wants.against(theirs); why != "" {
				return refusedBeside(other, name, why)
			}
		}
	}
	return nil
}

// refusedBeside says why a network cannot run beside another one that runs.
func refusedBeside(own, other, why string) error {
	return fmt.Errorf("network %s cannot run on this host beside network %s: %s; change one of the configs",
		other, own, why)
}

// refuses returns why another network cannot have a claim beside the member; nil: it can.
func (m *member) refuses(own, other string, wants claim) error {
	if m.claim != nil {
		if why := wants.against(*m.claim); why != "" {
			return refusedBeside(own, other, why)
		}
	}
	if why := wants.against(m.held); why != "" {
		return fmt.Errorf("network %s cannot run on this host yet: network %s still has objects of a former config there, "+
			"and %s; it begins as soon as they are gone", other, own, why)
	}
	return nil
}

func (c claim) equal(o claim) bool {
	return slices.Equal(c.prefixes, o.prefixes) && slices.Equal(c.devices, o.devices) &&
		slices.Equal(c.ports, o.ports)
}
