package scenarios

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/sim"
)

// operation does one thing to the datastore. All arguments are its to take.
type operation func(s *Session, st Store, a *args, input string) error

// operations are what is done in both worlds, by the word after "store".
func operations() map[string]operation {
	return map[string]operation{
		"stop": storeStop, "start": storeStart, "wipe": plainly(Store.Wipe), "compact": plainly(Store.Compact),
		"config": storeConfig, "firewall": storeFirewall, "put": storePut, "delete": storeDelete, "take": storeTake,
		"lose-data": storeLoseData, "leaderless": storeLeaderless, "slow": storeSlow, "lossy": storeLossy,
		"expire":  toRecord(func(st Store, name, _ string) error { return st.Expire(name) }),
		"reserve": toRecord(func(st Store, name, _ string) error { return st.Reserve(name) }),
		"clobber": toRecord(Store.Put),
	}
}

// kubeOperations are those that make sense with node objects as well.
var kubeOperations = [...]string{"stop", "start", "compact", "leaderless", "lose-data", "slow", "lossy"}

// store WHAT …: see the functions that operations and simStoreFaults name.
func (s *Session) store(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	what := a.word("what to do")
	if do, ok := operations()[what]; ok {
		if s.top.Kube && !slices.Contains(kubeOperations[:], what) {
			return "", fmt.Errorf("store %s: there are no such records with store=kube; see fault n1 node", what)
		}
		return "", do(s, s.world.Store(), a, d.Input)
	}
	do, ok := simStoreFaults()[what]
	if !ok {
		known := append(sortedKeys(operations()), sortedKeys(simStoreFaults())...)
		return "", fmt.Errorf("store %s: want one of %s", what, strings.Join(known, ", "))
	}
	w, isSim := s.World().(*SimWorld)
	if !isSim {
		return "", errOnlySim
	}
	return "", do(s, w.storage, a)
}

// store wipe|compact
func plainly(do func(Store) error) operation {
	return func(_ *Session, st Store, a *args, _ string) error {
		if err := a.done(); err != nil {
			return err
		}
		return do(st)
	}
}

// store stop
func storeStop(s *Session, st Store, a *args, _ string) error {
	if err := a.done(); err != nil {
		return err
	}
	return s.lasting("store", true, st.Stop, st.Start)
}

// store start
func storeStart(s *Session, st Store, a *args, _ string) error {
	if err := a.done(); err != nil {
		return err
	}
	return s.lasting("store", false, st.Start, nil)
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

// store firewall iptables|nftables: the config in force, but for what rules are made with
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
func toRecord(do func(st Store, name, input string) error) operation {
	return func(s *Session, st Store, a *args, input string) error {
		node := a.word("node")
		if err := a.done(); err != nil {
			return err
		}
		r, err := s.recordOf(node)
		if err != nil {
			return err
		}
		return do(st, "subnets/"+r.Name, input)
	}
}

// store lose-data: the disk is lost; the heal puts the config again
func storeLoseData(s *Session, st Store, a *args, _ string) error {
	if err := a.done(); err != nil {
		return err
	}
	if w, isSim := s.World().(*SimWorld); isSim && s.top.Kube {
		return s.lasting("store has no nodes", true, st.LoseData, w.registerNodes)
	}
	return s.lasting("store has no config", true, st.LoseData, func() error { return st.Put("config", s.config) })
}

// store leaderless [heal]: no request is served, no TTL runs out
// store leaderless for=10s: in the simulator alone, where it ends by itself
func storeLeaderless(s *Session, st Store, a *args, _ string) error {
	var length time.Duration
	a.duration("for", &length)
	on := !a.flag("heal")
	if err := a.done(); err != nil {
		return err
	}
	if length == 0 {
		return s.switched("leaderless store", on, st.Leaderless)
	}
	w, isSim := s.World().(*SimWorld)
	if !isSim {
		return errOnlySim
	}
	return s.lasting("leaderless store", true, func() error { w.storage.LoseLeader(length); return nil },
		func() error { return st.Leaderless(false) })
}

// store slow [chance=1] by=3s: requests and answers take up to that much longer
func storeSlow(s *Session, st Store, a *args, _ string) error {
	chance, by := 1.0, time.Duration(0)
	a.fraction("chance", &chance)
	a.duration("by", &by)
	if err := a.done(); err != nil {
		return err
	}
	return s.lasting("store slow", by > 0, func() error { return st.Slow(chance, by) }, func() error { return st.Slow(0, 0) })
}

// store lossy [requests=0.2] [answers=0.2]: requests, or answers to what was done, are lost
func storeLossy(s *Session, st Store, a *args, _ string) error {
	var requests, answers float64
	a.fraction("requests", &requests)
	a.fraction("answers", &answers)
	if err := a.done(); err != nil {
		return err
	}
	return s.lasting("store lossy", requests+answers > 0, func() error { return st.Lossy(requests, answers) },
		func() error { return st.Lossy(0, 0) })
}

// strangerHost is the number of a host that is no node.
const strangerHost = 99

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
	attrs, err := s.stranger(by)
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
	return s.lasting("stranger at "+r.Name, true, func() error { return st.Put(name, value) }, func() error {
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

// stranger is what a host says of itself that is no node.
func (s *Session) stranger(by string) (lease.Attrs, error) {
	b, _, err := s.backend()
	if err != nil {
		return lease.Attrs{}, err
	}
	attrs := lease.Attrs{BackendType: b.Type()}
	for _, f := range s.top.Families {
		ip := underlayAddr(f, 0, strangerHost).Addr()
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

// simStoreFault is one that only the simulator's datastore has.
type simStoreFault func(*Session, *sim.Store, *args) error

// simStoreFaults are
//
//	stale [chance=1]                         a full read gives the state before the last change
//	events [delay=2s] [lose=0.2] [duplicate=0.2] [reorder=0.2] [break=0.2]
//
// of which the last four last until the heal. One that is named again, with
// other values, is in place of what it was.
func simStoreFaults() map[string]simStoreFault {
	return map[string]simStoreFault{
		"stale": chances("stale", func(f *sim.StoreFaults, a *args) {
			f.StaleList = 1
			a.fraction("chance", &f.StaleList)
		}),
		"events": chances("events", func(f *sim.StoreFaults, a *args) {
			f.WatchDelay, f.WatchLose, f.WatchDuplicate, f.WatchReorder, f.WatchBreak = 0, 0, 0, 0, 0
			a.duration("delay", &f.WatchDelay)
			a.fraction("lose", &f.WatchLose)
			a.fraction("duplicate", &f.WatchDuplicate)
			a.fraction("reorder", &f.WatchReorder)
			a.fraction("break", &f.WatchBreak)
		}),
	}
}

// chances changes some of the chances of the store's faults; the heal ends all.
func chances(what string, read func(*sim.StoreFaults, *args)) simStoreFault {
	return func(s *Session, st *sim.Store, a *args) error {
		f := st.Faults()
		read(&f, a)
		if err := a.done(); err != nil {
			return err
		}
		return s.lasting("store "+what, true, func() error { st.SetFaults(f); return nil },
			func() error { st.SetFaults(sim.StoreFaults{}); return nil })
	}
}

// fault n2 request lost|unanswered|late [count=1]: what becomes of the next
// requests: never done; done, but the node does not learn it; done after the
// node has given up
func faultRequest(_ *Session, _ string, n Node, a *args, _ string) error {
	what, count := a.word("fate"), 1
	a.integer("count", &count)
	if err := a.done(); err != nil {
		return err
	}
	switch f := fate(what); f {
	case fateLost, fateUnanswered, fateLate:
		return n.Meet(f, count)
	}
	return fmt.Errorf("fault request %s: want lost, unanswered or late", what)
}

// fault n2 token: the store forgets who the node is; it has to authenticate anew
func faultToken(_ *Session, _ string, n Node, a *args, _ string) error {
	if err := a.done(); err != nil {
		return err
	}
	return n.ForgetToken()
}

// fault n2 denied [heal]: the store takes the node's permission away
func faultDenied(s *Session, name string, n Node, a *args, _ string) error {
	on := !a.flag("heal")
	if err := a.done(); err != nil {
		return err
	}
	return s.switched(name+" denied", on, n.Deny)
}
