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

// operation performs one operation on the datastore. It must read all its arguments.
type operation func(s *Session, st Store, a *args, input string) error

// operations returns the operations of both worlds, by the word after "store".
func operations() map[string]operation {
	return map[string]operation{
		"stop": storeStop, "start": storeStart, "wipe": plainly(RecordEditor.Wipe), "compact": plainly(RecordEditor.Compact),
		"config": storeConfig, "merge": storeMerge, "end-change": storeEndChange, "firewall": storeFirewall,
		"put": storePut, "delete": storeDelete, "take": storeTake, "forge": storeForge,
		"backup": storeBackup, "restore": storeRestore,
		"lose-data": storeLoseData, "leaderless": storeLeaderless, "slow": storeSlow, "lossy": storeLossy,
		"expire":    toRecord(edited(RecordEditor.Expire)),
		"reserve":   toRecord(edited(func(e RecordEditor, name string) error { return e.SetTTL(name, 0) })),
		"unreserve": storeUnreserve,
		"clobber":   toRecord(func(_ *Session, st Store, name, input string) error { return st.Put(name, input) }),
		"stale":     storeStale,
		"events":    storeEvents,
	}
}

// kubeOperations are the operations that also make sense with Kubernetes nodes.
var kubeOperations = [...]string{"stale", "events", "stop", "start", "compact", "leaderless", "lose-data", "slow",
	"lossy", "config", "merge", "end-change", "firewall", "forge"}

// store performs "store WHAT …" with a function of operations.
func (s *Session) store(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	what := a.word("what to do")
	if do, ok := operations()[what]; ok {
		if s.top.Kube && !slices.Contains(kubeOperations[:], what) {
			return "", fmt.Errorf("store %s: there are no such records with store=kube; see fault n1 node", what)
		}
		return "", do(s, s.world.Store(), a, d.Input)
	}
	return "", fmt.Errorf("store %s: want one of %s", what, strings.Join(sortedKeys(operations()), ", "))
}

// plainly returns the operations "store wipe|compact", which read no argument.
func plainly(do func(RecordEditor) error) operation {
	return func(s *Session, st Store, a *args, _ string) error {
		editor, err := afterArgs[RecordEditor](s, st, a)
		if err != nil {
			return err
		}
		return do(editor)
	}
}

// storeStop performs "store stop".
func storeStop(s *Session, st Store, a *args, _ string) error {
	if err := a.done(); err != nil {
		return err
	}
	return s.lasting(storeStopped, true, st.Stop, st.Start)
}

// storeStart performs "store start".
func storeStart(s *Session, st Store, a *args, _ string) error {
	if err := a.done(); err != nil {
		return err
	}
	return s.lasting(storeStopped, false, st.Start, nil)
}

// storePut performs "store put NAME", with the value as input.
func storePut(_ *Session, st Store, a *args, input string) error {
	name := a.word("name")
	if err := a.done(); err != nil {
		return err
	}
	return st.Put(name, input)
}

// storeDelete performs "store delete NAME".
func storeDelete(_ *Session, st Store, a *args, _ string) error {
	name := a.word("name")
	if err := a.done(); err != nil {
		return err
	}
	return st.Delete(name)
}

// toRecord returns the operations "store expire|reserve n2" and "store clobber
// n2", whose input replaces n2's record.
func toRecord(do func(s *Session, st Store, name, input string) error) operation {
	return func(s *Session, st Store, a *args, input string) error {
		node := a.word("node")
		if err := a.done(); err != nil {
			return err
		}
		r, err := s.recordOf(node)
		if err != nil {
			return err
		}
		return do(s, st, "subnets/"+r.Name, input)
	}
}

// storeUnreserve performs "store unreserve n2 ttl=30s": it turns n2's reservation
// back into a lease with that TTL.
func storeUnreserve(s *Session, st Store, a *args, input string) error {
	var ttl time.Duration
	a.duration("ttl", &ttl)
	if ttl < time.Second {
		return errors.New("store unreserve: want ttl=DURATION, of a second at least")
	}
	set := edited(func(e RecordEditor, name string) error { return e.SetTTL(name, ttl) })
	return toRecord(set)(s, st, a, input)
}

// edited turns a method of RecordEditor into an operation on a record.
func edited(do func(RecordEditor, string) error) func(*Session, Store, string, string) error {
	return func(s *Session, st Store, name, _ string) error {
		editor, err := able[RecordEditor](s, st)
		if err != nil {
			return err
		}
		return do(editor, name)
	}
}

// storeBackup performs "store backup".
func storeBackup(s *Session, st Store, a *args, _ string) error {
	r, err := afterArgs[Restorer](s, st, a)
	if err != nil {
		return err
	}
	if err := r.Backup(); err != nil {
		return err
	}
	s.backup = backup{s.config, s.undo[badConfig]}
	return nil
}

// storeRestore performs "store restore [further=100]": the datastore goes back to
// the last backup, followed by that many other changes.
func storeRestore(s *Session, st Store, a *args, _ string) error {
	further := 100
	a.integer("further", &further)
	r, err := afterArgs[Restorer](s, st, a)
	if err != nil {
		return err
	}
	if err := r.Restore(further); err != nil {
		return err
	}
	s.setConfig(s.backup.config)
	delete(s.undo, badConfig)
	if s.backup.bad != nil {
		s.undo[badConfig] = s.backup.bad
	}
	return nil
}

// backup describes the datastore at the time of "store backup".
type backup struct {
	config string       // in force
	bad    func() error // replaces an unusable config that the datastore held; nil: it held the one in force
}

// storeLoseData performs "store lose-data": the store loses its disk. The heal
// writes the config again.
func storeLoseData(s *Session, st Store, a *args, _ string) error {
	faulty, err := afterArgs[FaultyStore](s, st, a)
	if err != nil {
		return err
	}
	if s.top.Kube {
		return s.lasting("store has no nodes", true, faulty.LoseData, s.registerAll)
	}
	return s.lasting("store has no config", true, faulty.LoseData, s.putConfigRight)
}

// storeLeaderless performs
//
//	store leaderless [heal]    the store serves no request, and no TTL runs out
//	store leaderless for=10s   the store elects a leader by itself after that time
func storeLeaderless(s *Session, st Store, a *args, _ string) error {
	var length time.Duration
	a.duration("for", &length)
	on := !a.flag("heal")
	faulty, err := afterArgs[FaultyStore](s, st, a)
	if err != nil {
		return err
	}
	if length == 0 {
		return setting(s, storeNoLeader, on, faulty.Leaderless)
	}
	election, err := able[TimedElection](s, st)
	if err != nil {
		return err
	}
	return s.lasting(storeNoLeader, true, func() error { election.LoseLeader(length); return nil },
		func() error { return faulty.Leaderless(false) })
}

// storeSlow performs "store slow [chance=1] by=3s": requests and answers take up
// to that much longer.
func storeSlow(s *Session, st Store, a *args, _ string) error {
	chance, by := 1.0, time.Duration(0)
	a.fraction("chance", &chance)
	a.duration("by", &by)
	faulty, err := afterArgs[FaultyStore](s, st, a)
	if err != nil {
		return err
	}
	return s.lasting("store slow", by > 0, func() error { return faulty.Slow(chance, by) },
		func() error { return faulty.Slow(0, 0) })
}

// storeLossy performs "store lossy [requests=0.2] [answers=0.2]": requests get
// lost, or answers to served requests.
func storeLossy(s *Session, st Store, a *args, _ string) error {
	var requests, answers float64
	a.fraction("requests", &requests)
	a.fraction("answers", &answers)
	faulty, err := afterArgs[FaultyStore](s, st, a)
	if err != nil {
		return err
	}
	return s.lasting("store lossy", requests+answers > 0, func() error { return faulty.Lossy(requests, answers) },
		func() error { return faulty.Lossy(0, 0) })
}

// foreignHost is the number of a host that is not a node.
const foreignHost = 99

// storeTake performs
//
//	store take n2 [by=192.168.64.99] [backend=host-gw] [within=10s]
//
// It gives the subnet that a node has, or had when last remembered, to another
// host. By default that host does not exist and has the node's backend. With
// within, it waits for the node's record. The heal deletes the foreign record if it
// is unchanged.
func storeTake(s *Session, st Store, a *args, _ string) error {
	node := a.word("node")
	by := ""
	backend := ""
	a.text("by", &by)
	foreign := a.text("backend", &backend)
	var within time.Duration
	a.duration("within", &within)
	if err := a.done(); err != nil {
		return err
	}
	attrs, err := s.foreignAttrs(by)
	if err != nil {
		return err
	}
	if foreign {
		attrs.BackendType = backend
	}
	r, err := s.awaitRecord(node, within)
	if err != nil {
		r.Name = s.noted[node]
		if r.Name == "" {
			return err
		}
	}
	name, value := "subnets/"+r.Name, string(lease.EncodeAttrs(attrs))
	return s.lasting("foreign record at "+r.Name, true, func() error { return st.Put(name, value) }, func() error {
		records, err := st.Records()
		if err != nil {
			return err
		}
		for _, now := range records {
			if now.Name == r.Name && now.Value == value {
				return st.Delete(name)
			}
		}
		return nil
	})
}

// foreignAttrs returns the record of a host that is not a node.
func (s *Session) foreignAttrs(by string) (lease.Attrs, error) {
	b, _, err := s.backend()
	if err != nil {
		return lease.Attrs{}, err
	}
	attrs := lease.Attrs{BackendType: b.Type()}
	for _, f := range s.top.Families {
		ip := UnderlayAddr(f, 0, foreignHost).Addr()
		if f == cidr.V4 {
			attrs.PublicIP = ip
		} else {
			attrs.PublicIPv6 = ip
		}
		if data := []byte(`{"VNI":1,"VtepMAC":"02:00:00:00:00:99"}`); b.Type() == "vxlan" && f == cidr.V4 {
			attrs.BackendData = data
		} else if b.Type() == "vxlan" {
			attrs.BackendV6Data = data
		}
	}
	if by == "" {
		return attrs, nil
	}
	ip, err := netip.ParseAddr(by)
	if err != nil {
		return attrs, fmt.Errorf("by=%s: %w", by, err)
	}
	if ip.Is4() {
		attrs.PublicIP = ip
	} else {
		attrs.PublicIPv6 = ip
	}
	return attrs, nil
}

func (s *Session) recordOf(node string) (Record, error) {
	records, err := s.world.Store().Records()
	if err != nil {
		return Record{}, err
	}
	for _, r := range records {
		if l, ok := r.lease(); ok && s.owner(l) == node {
			return r, nil
		}
	}
	return Record{}, fmt.Errorf("%s has no record", node)
}

// awaitRecord returns the record of a node, which may take some time to appear.
func (s *Session) awaitRecord(node string, within time.Duration) (r Record, err error) {
	err = s.world.Until(within, func() error {
		r, err = s.recordOf(node)
		return err
	})
	return r, err
}

// registerAll registers the kubelets of all nodes again.
func (s *Session) registerAll() error {
	objects, err := able[NodeObjects](s, s.World())
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range s.top.NodeNames() {
		errs = append(errs, objects.RegisterNode(name))
	}
	return errors.Join(errs...)
}

// storeStale performs "store stale [chance=1]": a full read returns the state
// before the last change.
func storeStale(s *Session, st Store, a *args, _ string) error {
	chance := 1.0
	a.fraction("chance", &chance)
	streams, err := afterArgs[FaultyStreams](s, st, a)
	if err != nil {
		return err
	}
	return s.lasting("store stale", true, func() error { streams.StaleReads(chance); return nil }, calm(streams))
}

// storeEvents performs
//
//	store events [delay=2s] [lose=0.2] [duplicate=0.2] [reorder=0.2] [break=0.2]
//
// It disturbs event streams until the heal; the next such line replaces all five values.
func storeEvents(s *Session, st Store, a *args, _ string) error {
	var f EventFaults
	a.duration("delay", &f.Delay)
	a.fraction("lose", &f.Lose)
	a.fraction("duplicate", &f.Duplicate)
	a.fraction("reorder", &f.Reorder)
	a.fraction("break", &f.Break)
	streams, err := afterArgs[FaultyStreams](s, st, a)
	if err != nil {
		return err
	}
	return s.lasting("store events", true, func() error { streams.DisturbEvents(f); return nil }, calm(streams))
}

// calm ends all random faults.
func calm(streams FaultyStreams) func() error {
	return func() error { streams.CalmStreams(); return nil }
}

// faultRequest performs "fault n2 request lost|unanswered|late [count=1]". It
// sets the fate of the node's next requests; see [Fate].
func faultRequest(s *Session, _ string, n Node, a *args, _ string) error {
	what, count := a.word("fate"), 1
	a.integer("count", &count)
	client, err := afterArgs[StoreClient](s, n, a)
	if err != nil {
		return err
	}
	switch f := Fate(what); f {
	case FateLost, FateUnanswered, FateLate:
		return client.Meet(f, count)
	}
	return fmt.Errorf("fault request %s: want lost, unanswered or late", what)
}

// faultToken performs "fault n2 token": the store forgets the node's token, and
// the node must authenticate again.
func faultToken(s *Session, _ string, n Node, a *args, _ string) error {
	client, err := afterArgs[StoreClient](s, n, a)
	if err != nil {
		return err
	}
	return client.ForgetToken()
}

// faultDenied performs "fault n2 denied [heal]": the store revokes the node's
// permission.
func faultDenied(s *Session, name string, n Node, a *args, _ string) error {
	on := !a.flag("heal")
	client, err := afterArgs[StoreClient](s, n, a)
	if err != nil {
		return err
	}
	return setting(s, name+" denied", on, client.Deny)
}
