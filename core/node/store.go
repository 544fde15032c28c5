package node

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/backend/backends"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/transition"
)

// patience is the time that a node waits for the store before it programs the
// saved state of the last run.
const patience = 2 * time.Second

// chooseSnapshot puts the newest snapshot in force. While the store is
// unreachable, the last one stays in force. Without any, the saved one is used as
// stale.
func (n *Node) chooseSnapshot() {
	s := &n.store
	switch snap := s.view.Snapshot; {
	case snap != nil && snap != s.snap:
		if s.stale {
			n.event(Info, "store-synced",
				fmt.Sprintf("the datastore answers (revision %d); saved state is no longer used", snap.Revision))
		}
		n.noticeAccident(n.lastKnown(), snap)
		if s.snap != nil && !s.stale {
			n.noticeRestore(s.snap, snap)
		}
		n.reportChange(snap)
		s.snap, s.stale = snap, false
		s.changed = true
	case snap == nil && s.snap == nil && s.saved != nil && !n.now.Before(s.giveUp):
		s.snap, s.stale = &s.saved.Snapshot, true
		s.changed = true
		n.lease.self = s.saved.Self
		why := fmt.Sprintf("the datastore does not answer (%v)", s.view.Err)
		if s.leftOut != nil {
			why = "the network config is refused"
		}
		n.event(Warning, "store-stale", fmt.Sprintf("%s; going on with %d leases saved %s, nothing will be deleted",
			why, len(s.snap.Leases), s.saved.At.UTC().Format(time.RFC3339)))
	}
}

// lastKnown returns the last snapshot, of this run or saved by a former one, or an
// empty one. A saved snapshot counts as long as the lease saved with it: after that, the
// peers' leases may have ended as well, and nothing was lost by accident.
func (n *Node) lastKnown() *lease.Snapshot {
	s := n.store
	if s.snap != nil {
		return s.snap
	}
	if s.saved == nil || !s.saved.Expires.IsZero() && !n.now.Before(s.saved.Expires) {
		return &lease.Snapshot{}
	}
	return &s.saved.Snapshot
}

// reportChange logs one line for each snapshot, and one for each newly
// quarantined record.
func (n *Node) reportChange(snap *lease.Snapshot) {
	var old []*lease.Lease
	known := map[[2]string]bool{}
	if before := n.store.snap; before != nil {
		old = before.Leases
		for _, q := range before.Quarantined {
			known[[2]string{q.Raw, q.Reason}] = true
		}
	}
	c := lease.Compare(old, snap.Leases)
	if len(c.Added)+len(c.Changed)+len(c.Gone) > 0 {
		n.event(Info, "leases", fmt.Sprintf("revision %d: %d leases (%d new, %d changed, %d gone)",
			snap.Revision, len(snap.Leases), len(c.Added), len(c.Changed), len(c.Gone)))
	}
	for _, q := range snap.Quarantined {
		if !known[[2]string{q.Raw, q.Reason}] {
			n.reportQuarantined(q)
		}
	}
}

// synced reports whether the snapshot in force follows the store.
func (n *Node) synced() bool { return n.store.view.Synced && !n.store.stale }

// followConfig puts the snapshot's config in force if it is valid. Otherwise the
// last valid config stays in force, or that of the last run, and the node logs the
// error once.
func (n *Node) followConfig() {
	s := &n.network
	if n.store.snap == nil {
		return
	}
	doc, refusal := n.store.snap.Config, n.store.view.Beside.Refusal()
	same := doc.Revision == s.doc.Revision && string(doc.Data) == string(s.doc.Data) && sameText(refusal, s.refusal)
	if same && (s.known || s.err != nil) {
		return
	}
	s.doc, s.refusal = doc, refusal
	network, set, err := n.openConfig(doc)
	if refusal != nil {
		err = refusal
	}
	if err == nil {
		s.err = nil
		n.putInForce(doc, network, set)
		return
	}
	s.err = err
	n.event(Error, "config-refused", err.Error())
	if refusal != nil && !n.store.view.Beside.Resumes { // the config of the last run collides as well
		return
	}
	if !s.known && !n.useSavedConfig() && errors.As(err, new(unserved)) {
		n.exit(err)
	}
}

// sameText reports whether two errors say the same, or both are nil.
func sameText(a, b error) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error()
}

// openConfig reads a network config and opens its backend.
func (n *Node) openConfig(doc lease.Document) (config.Network, *backends.Set, error) {
	beside := n.store.view.Beside
	switch {
	case doc.Revision == 0 && len(doc.Data) == 0 && beside != nil:
		return config.Network{}, nil, errors.New(
			"the datastore holds no config of this network; put one at <etcd-prefix>/<network>/config")
	case doc.Revision == 0 && len(doc.Data) == 0:
		return config.Network{}, nil, errors.New(
			"the datastore holds no network config; put one at <etcd-prefix>/config")
	}
	network, set, err := checkConfig(doc.Data, n.assigned() != nil, func(network config.Network) []config.Backend {
		return n.transition.Previous(n.ownOffer(), network)
	})
	if err == nil {
		err = checkTrust(network, n.opts.TrustConfig)
	}
	return network, set, err
}

// useSavedConfig puts the config of the last run in force, since that of the datastore
// cannot be used. It returns false if there is none.
func (n *Node) useSavedConfig() bool {
	if n.store.saved == nil {
		return false
	}
	doc := n.store.saved.Snapshot.Config
	network, set, err := n.openConfig(doc)
	if err != nil {
		return false
	}
	n.event(Warning, "config-saved", "going on with the network config of the last run, "+
		"until the datastore holds one that can be used")
	n.putInForce(doc, network, set)
	n.network.history = n.store.saved.historyOfConfig()
	return true
}

// putInForce makes a config the one in force.
func (n *Node) putInForce(doc lease.Document, network config.Network, set *backends.Set) {
	s := &n.network
	n.event(Info, "config", fmt.Sprintf("network config in force: %s%s", describe(network), changed(s.config, network)))
	for _, warning := range warnings(network) {
		n.event(Warning, "config-warning", warning)
	}
	s.known = true
	s.config, s.inForce = network, doc
	s.history = n.store.snap.History
	if n.store.stale {
		s.history = n.store.saved.historyOfConfig()
	}
	n.host.rememberNetworks(network)
	n.underlay.Again()
	n.transition.Adopt(n.facts(), network, set)
	n.putBackends(transition.Backends)
}

// describe names the backend of a config, with the options that differ from their defaults, and its networks.
func describe(network config.Network) string {
	spec, _ := all.Find(network.Backend.Type)
	text := "backend " + spec.Type
	if given := spec.Given(network.Backend); len(given) > 0 {
		text += " with " + strings.Join(given, ", ")
	}
	for _, f := range cidr.Families {
		if r := network.Of(f); r.Enabled() {
			text += ", " + describeRange(r, f)
		}
	}
	return text
}

func describeRange(r config.Range, f cidr.Family) string {
	switch {
	case !r.Enabled():
		return fmt.Sprintf("no %s", f)
	case r.SubnetLen == 0:
		return fmt.Sprintf("%s %s", f, r.Network)
	}
	return fmt.Sprintf("%s %s in subnets of /%d from %s to %s", f, r.Network, r.SubnetLen, r.Min, r.Max)
}

// changed says what a config changes of the one that was in force; "": nothing that the description shows, or none was.
func changed(was, now config.Network) string {
	if !was.V4.Enabled() && !was.V6.Enabled() {
		return ""
	}
	var texts []string
	before, _ := all.Find(was.Backend.Type)
	spec, _ := all.Find(now.Backend.Type)
	if before.Type == spec.Type {
		texts = spec.Changed(was.Backend, now.Backend)
	} else {
		texts = append(texts, fmt.Sprintf("the backend from %s to %s", before.Type, spec.Type))
	}
	for _, f := range cidr.Families {
		if r := was.Of(f); r != now.Of(f) {
			texts = append(texts, fmt.Sprintf("the network, before: %s", describeRange(r, f)))
		}
	}
	if was.EnableNFTables != now.EnableNFTables {
		texts = append(texts, fmt.Sprintf("EnableNFTables from %t to %t", was.EnableNFTables, now.EnableNFTables))
	}
	if len(texts) == 0 {
		return ""
	}
	return "; changed: " + strings.Join(texts, ", ")
}
