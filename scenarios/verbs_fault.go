package scenarios

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/dataplane"
)

// strangeMAC is what a fault puts where a MAC of ours was.
var strangeMAC = dataplane.MAC{0x02, 0xba, 0xdb, 0xad, 0xba, 0xd1}

// fault n2 link flannel.1 delete|down|up|down-up|mac|mtu=1200
// fault n2 flush routes|neigh|fdb|addr flannel.1
// fault n2 uplink down|up|down-up|address=192.168.64.77|mtu=1400
// fault n2 sysctl net/ipv6/conf/flannel.1/accept_ra=1
// fault n2 add|remove, with objects in canonical form as input
// fault n2 cut|isolate [heal]: from the store, or from everybody
// fault n2 shadow n3 via=192.168.64.253: somebody's route to n3's subnet instead of ours
func (s *Session) fault(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	name, kind := a.word("node"), a.word("kind of fault")
	n, err := s.world.Node(name)
	if err != nil {
		return "", err
	}
	switch kind {
	case "link":
		return "", faultLink(n, a)
	case "flush":
		return "", faultFlush(n, a)
	case "uplink":
		return "", s.faultUplink(name, n, a)
	case "sysctl":
		return "", faultSysctl(n, a)
	case "add", "remove":
		if err := a.done(); err != nil {
			return "", err
		}
		return "", faultObjects(n, kind, d.Input)
	case "cut", "isolate":
		on := !a.flag("heal")
		if err := a.done(); err != nil {
			return "", err
		}
		do := n.Isolate
		if kind == "cut" {
			do = n.Cut
		}
		return "", s.lasting(name+" "+kind, on, func() error { return do(on) }, func() error { return do(false) })
	}
	if kind == "shadow" {
		return "", s.faultShadow(n, a)
	}
	return "", fmt.Errorf("fault %s: want link, flush, uplink, sysctl, add, remove, cut, isolate or shadow", kind)
}

// lasting does something whose effect stays until it is undone, and takes note
// of how; or undoes it.
func (s *Session) lasting(what string, on bool, do, undo func() error) error {
	if delete(s.undo, what); on {
		s.undo[what] = undo
	}
	return do()
}

// heal undoes every fault that lasts and starts every daemon that has been
// started before: cut and isolated nodes, uplinks, the store, paused and killed
// daemons. It deletes records that do not decode, as an operator would. What
// faults did to the hosts is for flanneld to put right.
func (s *Session) heal(d *datadriven.TestData) (string, error) {
	if err := newArgs(d).done(); err != nil {
		return "", err
	}
	for _, what := range sortedKeys(s.undo) {
		undo := s.undo[what]
		delete(s.undo, what)
		if err := undo(); err != nil {
			return "", fmt.Errorf("undo %s: %w", what, err)
		}
	}
	if err := s.sweep(); err != nil {
		return "", err
	}
	return "", s.each(sortedKeys(s.started), func(name string, n Node) error {
		s.started[name] = true
		if err := n.Resume(); err != nil || n.Running() {
			return err
		}
		return n.Start(nil)
	})
}

// sweep deletes all records that nobody can read.
func (s *Session) sweep() error {
	records, err := s.world.Store().Records()
	if err != nil {
		return err
	}
	for _, r := range records {
		if _, ok := r.lease(); !ok {
			if err := s.world.Store().Delete("subnets/" + r.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func faultLink(n Node, a *args) error {
	dev := a.word("device")
	mtu := 0
	a.integer("mtu", &mtu)
	what := "mtu"
	if mtu == 0 {
		what = a.word("what to do to " + dev)
	}
	if err := a.done(); err != nil {
		return err
	}
	switch what {
	case "mtu":
		return n.SetMTU(dev, mtu)
	case "delete":
		return n.LinkDelete(dev)
	case "down":
		return n.LinkDown(dev)
	case "up":
		return n.LinkUp(dev)
	case "down-up":
		if err := n.LinkDown(dev); err != nil {
			return err
		}
		return n.LinkUp(dev)
	case "mac":
		return n.SetMAC(dev, strangeMAC)
	}
	return fmt.Errorf("fault link %s: want delete, down, up, down-up, mac or mtu=N", what)
}

func faultFlush(n Node, a *args) error {
	what, dev := a.word("what to flush"), a.word("device")
	if err := a.done(); err != nil {
		return err
	}
	flush, known := map[string]func(string) error{
		"routes": n.FlushRoutes, "neigh": n.FlushNeigh, "fdb": n.FlushFDB, "addr": n.FlushAddrs,
	}[what]
	if !known {
		return fmt.Errorf("fault flush %s: want routes, neigh, fdb or addr", what)
	}
	return flush(dev)
}

func (s *Session) faultUplink(name string, n Node, a *args) error {
	var addr string
	mtu := 0
	a.integer("mtu", &mtu)
	moved := a.text("address", &addr)
	down, up, bounce := a.flag("down"), a.flag("up"), a.flag("down-up")
	if err := a.done(); err != nil {
		return err
	}
	switch {
	case down || up:
		do := n.UplinkUp
		if down {
			do = n.UplinkDown
		}
		return s.lasting(name+" uplink", down, do, n.UplinkUp)
	case bounce:
		if err := n.UplinkDown(); err != nil {
			return err
		}
		return n.UplinkUp()
	case mtu > 0:
		s.mtus[name] = mtu
		return n.UplinkMTU(mtu)
	case moved:
		ip, err := netip.ParseAddr(addr)
		if err != nil {
			return err
		}
		s.moved[name] = ip
		return n.UplinkAddress(ip)
	}
	return fmt.Errorf("fault uplink: want down, up, down-up, address=IP or mtu=N")
}

func faultSysctl(n Node, a *args) error {
	for path, value := range a.pairs {
		delete(a.pairs, path)
		if err := n.SetSysctl(path, value); err != nil {
			return err
		}
	}
	return a.done()
}

func faultObjects(n Node, verb, input string) error {
	for _, line := range strings.Split(input, "\n") {
		o, err := dataplane.ParseObject(line)
		if err != nil {
			return err
		}
		do := n.Add
		if verb == "remove" {
			do = n.Remove
		}
		if err := do(o); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) faultShadow(n Node, a *args) error {
	peer, via := a.word("peer"), ""
	a.text("via", &via)
	if err := a.done(); err != nil {
		return err
	}
	gateway, err := netip.ParseAddr(via)
	if err != nil {
		return fmt.Errorf("via=%s: %w", via, err)
	}
	r, err := s.recordOf(peer)
	if err != nil {
		return err
	}
	extent, err := s.extent()
	if err != nil {
		return err
	}
	state, err := n.State(extent)
	if err != nil {
		return err
	}
	l, _ := r.lease()
	key := dataplane.RouteKey{Dst: l.Key.Of(s.top.Families[0])}
	if ours, ok := state.Routes[key]; ok {
		if err := n.Remove(ours); err != nil {
			return err
		}
	}
	return n.Add(dataplane.Route{RouteKey: key, Via: gateway, Link: "eth0", Protocol: dataplane.ProtocolBoot})
}

// store stop|start|wipe|compact
// store put NAME, with the value as input; store config, likewise
// store delete NAME
// store expire|reserve n2
// store clobber n2, with what is put over n2's record as input
// store take n2 by=192.168.64.99: n2's subnet now is another's
func (s *Session) store(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	what := a.word("what to do")
	by := ""
	a.text("by", &by)
	arg := ""
	if len(a.words) > 0 {
		arg = a.word("")
	}
	if err := a.done(); err != nil {
		return "", err
	}
	st := s.world.Store()
	switch what {
	case "stop":
		return "", s.lasting("store", true, st.Stop, st.Start)
	case "start":
		return "", s.lasting("store", false, st.Start, nil)
	case "wipe":
		return "", st.Wipe()
	case "compact":
		return "", st.Compact()
	case "config":
		s.config = d.Input
		return "", st.Put("config", d.Input)
	case "put":
		return "", st.Put(arg, d.Input)
	case "delete":
		return "", st.Delete(arg)
	case "clobber":
		r, err := s.recordOf(arg)
		if err != nil {
			return "", err
		}
		return "", st.Put("subnets/"+r.Name, d.Input)
	case "take":
		return "", s.take(arg, by)
	case "expire", "reserve":
		r, err := s.recordOf(arg)
		if err != nil {
			return "", err
		}
		if what == "expire" {
			return "", st.Expire("subnets/" + r.Name)
		}
		return "", st.Reserve("subnets/" + r.Name)
	}
	return "", fmt.Errorf("store %s: want stop, start, wipe, compact, config, put, delete, clobber, expire, reserve or take", what)
}

// take gives the subnet that a node has, or had when last remembered, to
// another host.
func (s *Session) take(node, by string) error {
	if _, err := netip.ParseAddr(by); err != nil {
		return fmt.Errorf("by=%s: %w", by, err)
	}
	r, err := s.recordOf(node)
	if err != nil {
		if r.Name = s.noted[node]; r.Name == "" {
			return err
		}
	}
	return s.world.Store().Put("subnets/"+r.Name, `{"PublicIP":`+strconv.Quote(by)+
		`,"PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"02:00:00:00:00:99"}}`)
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
