package networks

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A swap is a set of networks whose configs fit on the host, and each of which waits for a part of
// the host that another one of them has by a config that it comes from. None of them could ever go on: what a
// network has by a former config it keeps while a peer needs it, which may be for as long as it cannot change.
// So each removes what it has on the host, as if its config had gone, and begins anew. All of them do:
// one that kept its previous backend until its peers have followed would keep the others waiting, and
// these have nothing.

// beginSwaps looks for swaps, and reports those that it finds. A network that has begun to remove
// what it has goes on with that until it is gone, or until the config of one that takes part changes.
func (h *Host) beginSwaps(names []string) {
	for _, name := range names {
		with := h.swap(name)
		if len(with) == 0 || h.members[name].swaps {
			continue
		}
		for _, one := range with {
			h.members[one].swaps = true
		}
		if h.report != nil {
			h.report(fmt.Sprintf("networks %s want what the others of them have on this host: each removes what it has "+
				"there, and begins anew with its new config", strings.Join(with, " and ")))
		}
	}
	for _, name := range names {
		if m := h.members[name]; m.swaps {
			m.refused = fmt.Errorf("network %s cannot run on this host yet: it and another network want what the other one has "+
				"there; it removes what it has, and begins anew with its new config as soon as the other one has done so", name)
		}
	}
}

// endSwaps is called when a config has changed: the networks may not want to swap any more.
func (h *Host) endSwaps() {
	for _, m := range h.members {
		m.swaps = false
	}
}

// swap returns the networks of the swap in which a network takes part, sorted; none if it takes part in none.
func (h *Host) swap(name string) []string {
	with := h.blockers(name)
	for i := 0; i < len(with); i++ { // with grows
		for _, other := range h.blockers(with[i]) {
			if !slices.Contains(with, other) {
				with = append(with, other)
			}
		}
	}
	if !slices.Contains(with, name) {
		return nil
	}
	slices.Sort(with)
	for _, one := range with {
		if len(h.blockers(one)) == 0 || !h.fitsAfter(one, with) {
			return nil
		}
	}
	return with
}

// blockers returns the networks that keep a network that runs from its new config, sorted. What is left of their
// former configs counts while their nodes are at rest: a node at work may be removing it.
func (h *Host) blockers(name string) []string {
	m := h.members[name]
	wants, err := claimOf(m.doc.Data)
	if m.refused == nil || m.claim == nil || err != nil {
		return nil
	}
	var found []string
	for _, other := range slices.Sorted(maps.Keys(h.members)) {
		o := h.members[other]
		has := o.claim != nil && wants.against(*o.claim) != "" || o.rests && wants.against(o.held) != ""
		if other != name && has {
			found = append(found, other)
		}
	}
	return found
}

// fitsAfter reports whether a network can have its new config once the networks of a swap have
// removed what they have.
func (h *Host) fitsAfter(name string, with []string) bool {
	wants, err := claimOf(h.members[name].doc.Data)
	if err != nil {
		return false
	}
	for other, m := range h.members {
		if other == name {
			continue
		}
		if !slices.Contains(with, other) {
			if m.refuses(other, name, wants) != nil {
				return false
			}
			continue
		}
		if theirs, err := claimOf(m.doc.Data); err != nil || wants.against(theirs) != "" {
			return false
		}
	}
	return true
}
