package invariants

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// Invariants watch a simulated world. Each check runs where its invariant can
// break: when a node writes a record, applies an op, makes a plan or takes a
// subnet. Only conditions with a time limit are checked after every event. A
// violation ends the world.
type Invariants struct {
	about    Options
	began    time.Time
	nodes    map[string]*Node
	order    []string // names of nodes, in the order in which they were made
	records  map[string]*history
	authors  map[authored]string // the node that wrote each record last
	reserved map[string]bool     // records without a TTL, which need no renewal
	// unreserved holds the revisions at which reservations got a TTL again.
	unreserved map[string]int64
	config     config.Network
	text       string              // of the config
	bad        bool                // the store holds no config that a node can use; config is the last usable one
	sealed     bool                // every config so far demands encryption by IPsec
	links      map[string]bool     // every device that a config has ever named
	networks   []netip.Prefix      // every network that a config has ever named
	overlaps   map[pair]overlap    // the present ones, which may be excused
	changes    int                 // of records and config
	causes     int                 // of writes: see noteWrite
	podCIDRs   map[string]bool     // each "NAME CIDRS" that a Kubernetes node ever had
	onNodes    map[string]*history // the records on Kubernetes nodes, by "NAME CIDRS"
	crossing   crossing            // the last change of the backend

	situation Situation
	stored    string   // the config in the store, usable or not; "": none
	storedAt  int      // the count of changes of all networks' configs at that time
	texts     []string // all configs that the store has held
	contested bool     // the config in the store collides with another network's

	judgesClaims bool // see JudgeClaims
}

// pair names two nodes, in the order of their names.
type pair [2]string

// Options name the world to watch, and the options of its daemons.
type Options struct {
	World      *world.World
	Store      *store.Store
	Config     string // the network config of daemons on Kubernetes nodes, "" with etcd
	ExitOnLoss bool
	Masquerade bool
	IPForward  bool
	Apart      *Apart // watches the networks of the hosts; nil: they have one without a name
	Network    string // its name; "" with Apart nil
}

// Watch begins to watch. Call it before the first write to the store.
func Watch(o Options) *Invariants {
	i := &Invariants{
		about: o, began: o.World.Now(), nodes: map[string]*Node{}, bad: true,
		records: map[string]*history{}, authors: map[authored]string{}, reserved: map[string]bool{},
		unreserved: map[string]int64{}, links: map[string]bool{}, overlaps: map[pair]overlap{}, podCIDRs: map[string]bool{},
		onNodes: map[string]*history{},
	}
	o.Apart.add(i)
	o.Store.OnWrite(i.wrote)
	o.World.Always("standing", i.noteStanding)
	o.World.Always("overlap", i.checkOverlaps)
	o.World.Always("looks-in-time", i.checkLooks)
	o.World.Always("renews-in-time", i.checkRenewals)
	o.World.Always("repairs-in-time", i.checkDisputes)
	o.World.Always("follows-in-time", i.checkChanges)
	o.World.Always("ready-in-time", i.checkReadiness)
	o.World.Always("departed-in-time", i.checkDeparted)
	o.World.Always("way-shared", i.checkCrossing)
	o.World.Always("networks-decided", i.checkVerdicts)
	o.World.Always("clear-text", i.noteOffers)
	o.World.Always("uplink-returns", i.checkReturns)
	o.World.Always("ready-means-peers", i.checkSilence)
	o.World.Always("sealed-in-time", i.checkSealed)
	if o.Config != "" {
		i.takeConfig(o.Config)
		o.Store.OnNodeWrite(i.wroteNode)
	}
	return i
}

// broken ends the world.
func (i *Invariants) broken(name, format string, args ...any) {
	i.about.World.Fail(fmt.Errorf("invariant %q: %s", name, fmt.Sprintf(format, args...)))
}

// authored names a record by its key and the address that it publishes.
type authored struct {
	key  string
	addr netip.Addr
}

// history describes the last write of a record.
type history struct {
	writer string     // the node that wrote the record last, perhaps before a backup; "" for an operator
	addr   netip.Addr // its owner's
	flawed bool       // it does not decode
	key    lease.Key
	born   int64         // the revision that created it
	gone   bool          // it was deleted, or has expired
	goneAt time.Duration // when that happened
}

// keptBound is how long a node may serve a peer after its record is gone: five
// minutes after an accident of the store, which the node may notice late.
const keptBound = 6 * time.Minute

// owner returns the public address that identifies a record's owner (interop 3.2:
// the IPv6 address if the key has only an IPv6 part).
func owner(a lease.Attrs) netip.Addr {
	if a.PublicIP.IsValid() {
		return a.PublicIP
	}
	return a.PublicIPv6
}

// wrote follows a change of the store.
func (i *Invariants) wrote(w store.Write) {
	i.changes++
	i.noteWrite(w.Client, "subnets/"+w.Key)
	if w.Key == "config" {
		i.wroteConfig(w)
		return
	}
	h := i.records[w.Key]
	if h == nil {
		h = &history{}
		i.records[w.Key] = h
	}
	if w.Client != "" {
		i.checkWrite(w, h)
		i.checkQuota(w)
		if w.New != nil && w.New.Flaw == "" {
			i.nodes[w.Client].notePublished(w.New.Lease)
			i.checkSane(i.nodes[w.Client], w.New.Lease)
			i.nodes[w.Client].noteBlind(w)
		}
	}
	i.excuse(w)
	i.crossing.wrote(w, i)
	for _, name := range i.order {
		if n := i.nodes[name]; w.Key == n.last.String() {
			n.noteDispute(w)
		}
	}
	if w.New != nil { // the node of a deleted record may not know that yet
		if i.reserved[w.Key] && w.New.Expiring {
			i.unreserved[w.Key] = i.about.Store.Revision()
			i.beginRenewals(w.Key)
		}
		i.reserved[w.Key] = !w.New.Expiring
	}
	i.noteLost(w, h)
	h.flawed = w.New != nil && w.New.Flaw != ""
	h.gone, h.goneAt = w.New == nil, i.elapsed()
	if w.New == nil || w.New.Flaw != "" {
		return // nodes still take the record for its former owner's
	}
	addr := owner(w.New.Lease.Attrs)
	if w.Client != "" {
		i.authors[authored{w.Key, addr}] = w.Client
	}
	if w.Client != "" || addr != h.addr {
		*h = history{writer: i.authors[authored{w.Key, addr}], addr: addr}
	}
	h.key, h.born = w.New.Lease.Key, w.New.Lease.CreateRevision
}

// overlapsOlder reports whether an older record covers part of a record's subnet: its node has to give it up.
func (i *Invariants) overlapsOlder(h *history) bool {
	for _, r := range i.records {
		if r != h && !r.gone && r.born < h.born && r.key.Overlaps(h.key) {
			return true
		}
	}
	return false
}

// checkWrite checks a node's write to a record.
func (i *Invariants) checkWrite(w store.Write, h *history) {
	if w.Old == nil {
		return
	}
	same := w.New != nil && owner(w.New.Lease.Attrs) == h.addr || w.New == nil && i.hasAddress(w.Client, h.addr)
	if n := i.nodes[w.Client]; w.Old.Flaw == "" && !n.network().V4.Enabled() { // the IPv6 address says whose it is
		same = same || i.hasAddress(w.Client, w.Old.Lease.Attrs.PublicIPv6)
	}
	if w.Client != h.writer && !same && !i.nodes[w.Client].Twinned {
		what := "overwrites"
		if w.New == nil {
			what = "deletes"
		}
		i.broken("own-records-only", "%s %s subnets/%s, which belongs to %s (%s)", w.Client, what, w.Key, h.addr, w.Old.Value)
	}
	if w.New != nil && w.Old.Flaw == "" && !w.Old.Expiring && w.New.Expiring {
		i.broken("reservations-stay", "%s gives the reservation subnets/%s a TTL", w.Client, w.Key)
	}
}

func (i *Invariants) hasAddress(name string, a netip.Addr) bool {
	n := i.nodes[name]
	return n != nil && slices.Contains(n.addresses(), a)
}

func (i *Invariants) wroteConfig(w store.Write) {
	i.bad, i.stored = true, ""
	if w.New != nil {
		i.stored = w.New.Value
		i.noteText(i.stored)
	}
	if i.about.Apart != nil {
		i.about.Apart.writes++
		i.storedAt = i.about.Apart.writes
		i.about.Apart.reconsider()
		return
	}
	i.takeConfig(i.stored)
}

// usableConfig reads a network config that nodes can use.
func usableConfig(text string) (network config.Network, b backend.Backend, ok bool) {
	network, err := config.Parse([]byte(text))
	if err != nil {
		return network, nil, false
	}
	b, err = all.New(network)
	return network, b, err == nil
}

// takeConfig follows the config in force, if it is valid.
func (i *Invariants) takeConfig(text string) {
	network, b, ok := usableConfig(text)
	if !ok {
		return
	}
	i.sealed = (i.sealed || i.text == "") && b.Extent().Policies
	i.cross(network)
	i.config, i.text = network, text
	i.bad = false
	i.mayHave(network, b)
	for _, n := range i.nodes {
		if n.last.IsValid() && !i.fits(n.last) {
			n.excused = true
		}
	}
}

// mayHave notes what nodes may have on their hosts with a config, also of a family that is off: a former run may have
// left it.
func (i *Invariants) mayHave(network config.Network, b backend.Backend) {
	links := b.Extent().Links
	if a, ok := b.(backend.Asider); ok {
		for _, n := range a.Renamings() {
			links = append(slices.Clip(links), n.From)
		}
	}
	for _, l := range links {
		i.links[l] = true
	}
	i.networks = append(i.networks, network.Off...)
	for _, f := range cidr.Families {
		if p := network.Of(f).Network; p.IsValid() {
			i.networks = append(i.networks, p)
		}
	}
}

// inNetworks reports whether an address range belongs to the overlay.
func (i *Invariants) inNetworks(p netip.Prefix) bool {
	return slices.ContainsFunc(i.networks,
		func(n netip.Prefix) bool { return n.Bits() <= p.Bits() && n.Contains(p.Addr()) })
}

// elapsed returns the time since the world began.
func (i *Invariants) elapsed() time.Duration { return i.about.World.Now().Sub(i.began) }
