package lang

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// operation does one thing to the datastore. All arguments are its to take.
type operation func(s *Session, st Store, a *args, input string) error

// operations are what is done in both worlds, by the word after "store".
func operations() map[string]operation {
	return map[string]operation{
		"stop": storeStop, "start": storeStart, "wipe": plainly(RecordEditor.Wipe), "compact": plainly(RecordEditor.Compact),
		"config": storeConfig, "firewall": storeFirewall, "put": storePut, "delete": storeDelete, "take": storeTake,
		"lose-data": storeLoseData, "leaderless": storeLeaderless, "slow": storeSlow, "lossy": storeLossy,
		"expire":  toRecord(edited(RecordEditor.Expire)),
		"reserve": toRecord(edited(RecordEditor.Reserve)),
		"clobber": toRecord(func(_ *Session, st Store, name, input string) error { return st.Put(name, input) }),
		"stale":   storeStale,
		"events":  storeEvents,
	}
}

// kubeOperations are those that make sense with node objects as well.
var kubeOperations = [...]string{"stale", "events", "stop", "start", "compact", "leaderless", "lose-data", "slow", "lossy"}

// store WHAT …: see the functions that operations names.
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

// store wipe|compact
func plainly(do func(RecordEditor) error) operation {
	return func(s *Session, st Store, a *args, _ string) error {
		if err := a.done(); err != nil {
			return err
		}
		editor, err := able[RecordEditor](s, st)
		if err != nil {
			return err
		}
		return do(editor)
	}
}

// store stop
func storeStop(s *Session, st Store, a *args, _ string) error {
	if err := a.done(); err != nil {
		return err
	}
	return s.lasting(storeStopped, true, st.Stop, st.Start)
}

// store start
func storeStart(s *Session, st Store, a *args, _ string) error {
	if err := a.done(); err != nil {
		return err
	}
	return s.lasting(storeStopped, false, st.Start, nil)
}

// store config, with the network config as input
func storeConfig(s *Session, st Store, a *args, input string) error {
	if err := a.done(); err != nil {
		return err
	}
	if err := st.Put("config", input); err != nil {
		return err
	}
	s.config = input
	return nil
}

// store firewall iptables|nftables: the config in force, with another tool for the rules
func storeFirewall(s *Session, st Store, a *args, _ string) error {
	flavour := a.word("iptables or nftables")
	if err := a.done(); err != nil {
		return err
	}
	if flavour != string(dataplane.IPTables) && flavour != string(dataplane.NFTables) {
		return fmt.Errorf("store firewall %s: want iptables or nftables", flavour)
	}
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(s.config), &fields); err != nil {
		return fmt.Errorf("the config in force: %w", err)
	}
	fields["EnableNFTables"] = flavour == string(dataplane.NFTables)
	text, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("the config in force: %w", err)
	}
	return storeConfig(s, st, newArgs(&datadriven.TestData{}), string(text))
}

// store put NAME, with the value as input
func storePut(_ *Session, st Store, a *args, input string) error {
	name := a.word("name")
	if err := a.done(); err != nil {
		return err
	}
	return st.Put(name, input)
}

// store delete NAME
func storeDelete(_ *Session, st Store, a *args, _ string) error {
	name := a.word("name")
	if err := a.done(); err != nil {
		return err
	}
	return st.Delete(name)
}

// store expire|reserve n2
// store clobber n2, with what is put over n2's record as input
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

// edited makes an operation on a record of what a RecordEditor does to it.
func edited(do func(RecordEditor, string) error) func(*Session, Store, string, string) error {
	return func(s *Session, st Store, name, _ string) error {
		editor, err := able[RecordEditor](s, st)
		if err != nil {
			return err
		}
		return do(editor, name)
	}
}

// store lose-data: the disk is lost; the heal puts the config again
func storeLoseData(s *Session, st Store, a *args, _ string) error {
	if err := a.done(); err != nil {
		return err
	}
	faulty, err := able[FaultyStore](s, st)
	if err != nil {
		return err
	}
	if s.top.Kube {
		return s.lasting("store has no nodes", true, faulty.LoseData, s.registerAll)
	}
	return s.lasting("store has no config", true, faulty.LoseData, func() error { return st.Put("config", s.config) })
}

// store leaderless [heal]: no request is served, no TTL runs out
// store leaderless for=10s: the store elects a leader by itself after that time
func storeLeaderless(s *Session, st Store, a *args, _ string) error {
	var length time.Duration
	a.duration("for", &length)
	on := !a.flag("heal")
	if err := a.done(); err != nil {
		return err
	}
	faulty, err := able[FaultyStore](s, st)
	if err != nil {
		return err
	}
	if length == 0 {
		return s.switched(storeNoLeader, on, faulty.Leaderless)
	}
	election, err := able[TimedElection](s, st)
	if err != nil {
		return err
	}
	return s.lasting(storeNoLeader, true, func() error { election.LoseLeader(length); return nil },
		func() error { return faulty.Leaderless(false) })
}

// store slow [chance=1] by=3s: requests and answers take up to that much longer
func storeSlow(s *Session, st Store, a *args, _ string) error {
	chance, by := 1.0, time.Duration(0)
	a.fraction("chance", &chance)
	a.duration("by", &by)
	if err := a.done(); err != nil {
		return err
	}
	faulty, err := able[FaultyStore](s, st)
	if err != nil {
		return err
	}
	return s.lasting("store slow", by > 0, func() error { return faulty.Slow(chance, by) },
		func() error { return faulty.Slow(0, 0) })
}

// store lossy [requests=0.2] [answers=0.2]: requests, or answers to what was done, are lost
func storeLossy(s *Session, st Store, a *args, _ string) error {
	var requests, answers float64
	a.fraction("requests", &requests)
	a.fraction("answers", &answers)
	if err := a.done(); err != nil {
		return err
	}
	faulty, err := able[FaultyStore](s, st)
	if err != nil {
		return err
	}
	return s.lasting("store lossy", requests+answers > 0, func() error { return faulty.Lossy(requests, answers) },
		func() error { return faulty.Lossy(0, 0) })
}

// foreignHost is the number of a host that is not a node.
const foreignHost = 99

// store take n2 [by=192.168.64.99] [backend=host-gw]: the subnet that a node has, or had when
// last remembered, is another host's: by default of one that does not exist,
// with the node's backend. The heal takes it back, if it still is what was
// written.
func storeTake(s *Session, st Store, a *args, _ string) error {
	node, by, backend := a.word("node"), "", ""
	a.text("by", &by)
	foreign := a.text("backend", &backend)
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
	r, err := s.recordOf(node)
	if err != nil {
		if r.Name = s.noted[node]; r.Name == "" {
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

// foreignAttrs is the record of a host that is not a node.
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

// store stale [chance=1]: a full read returns the state before the last change
func storeStale(s *Session, st Store, a *args, _ string) error {
	chance := 1.0
	a.fraction("chance", &chance)
	if err := a.done(); err != nil {
		return err
	}
	streams, err := able[FaultyStreams](s, st)
	if err != nil {
		return err
	}
	return s.lasting("store stale", true, func() error { streams.StaleReads(chance); return nil }, calm(streams))
}

// store events [delay=2s] [lose=0.2] [duplicate=0.2] [reorder=0.2] [break=0.2]
// until the heal; the next such line replaces all five values
func storeEvents(s *Session, st Store, a *args, _ string) error {
	var f EventFaults
	a.duration("delay", &f.Delay)
	a.fraction("lose", &f.Lose)
	a.fraction("duplicate", &f.Duplicate)
	a.fraction("reorder", &f.Reorder)
	a.fraction("break", &f.Break)
	if err := a.done(); err != nil {
		return err
	}
	streams, err := able[FaultyStreams](s, st)
	if err != nil {
		return err
	}
	return s.lasting("store events", true, func() error { streams.DisturbEvents(f); return nil }, calm(streams))
}

// calm ends all that goes wrong by chance.
func calm(streams FaultyStreams) func() error {
	return func() error { streams.CalmStreams(); return nil }
}

// fault n2 request lost|unanswered|late [count=1]: what becomes of the next
// requests: never done; done, but the node does not learn it; done after the
// node has given up
func faultRequest(s *Session, _ string, n Node, a *args, _ string) error {
	what, count := a.word("fate"), 1
	a.integer("count", &count)
	if err := a.done(); err != nil {
		return err
	}
	client, err := able[StoreClient](s, n)
	if err != nil {
		return err
	}
	switch f := Fate(what); f {
	case FateLost, FateUnanswered, FateLate:
		return client.Meet(f, count)
	}
	return fmt.Errorf("fault request %s: want lost, unanswered or late", what)
}

// fault n2 token: the store forgets who the node is; it has to authenticate anew
func faultToken(s *Session, _ string, n Node, a *args, _ string) error {
	if err := a.done(); err != nil {
		return err
	}
	client, err := able[StoreClient](s, n)
	if err != nil {
		return err
	}
	return client.ForgetToken()
}

// fault n2 denied [heal]: the store takes the node's permission away
func faultDenied(s *Session, name string, n Node, a *args, _ string) error {
	on := !a.flag("heal")
	if err := a.done(); err != nil {
		return err
	}
	client, err := able[StoreClient](s, n)
	if err != nil {
		return err
	}
	return s.switched(name+" denied", on, client.Deny)
}
