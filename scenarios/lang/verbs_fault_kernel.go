package lang

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// foreignMAC replaces our MAC address in a fault.
var foreignMAC = dataplane.MAC{0x02, 0xba, 0xdb, 0xad, 0xba, 0xd1}

// faultLink performs
//
//	fault n2 link flannel.1 delete|down|up|down-up|mac|protodown|mtu=1200|ttl=1|address=198.51.100.7/32|master=cni0
func faultLink(s *Session, _ string, n Node, a *args, _ string) error {
	dev := a.word("device")
	mtu, ttl := 0, 0
	addr := ""
	what := ""
	a.integer("mtu", &mtu)
	a.integer("ttl", &ttl)
	moved := a.text("address", &addr)
	master := ""
	a.text("master", &master)
	if mtu == 0 && ttl == 0 && !moved && master == "" {
		what = a.word("what to do to " + dev)
	}
	links, err := afterArgs[LinkEditor](s, n, a)
	if err != nil {
		return err
	}
	switch {
	case mtu != 0:
		return links.SetMTU(dev, mtu)
	case ttl != 0:
		return links.SetTTL(dev, uint8(ttl))
	case moved:
		return s.readdress(n, dev, addr)
	case master != "":
		return links.Enslave(dev, master)
	}
	switch what {
	case "delete":
		return links.LinkDelete(dev)
	case "down":
		return links.LinkDown(dev)
	case "up":
		return links.LinkUp(dev)
	case "down-up":
		if err := links.LinkDown(dev); err != nil {
			return err
		}
		return links.LinkUp(dev)
	case "mac":
		return links.SetMAC(dev, foreignMAC)
	case "protodown":
		return links.ProtoDown(dev)
	}
	return fmt.Errorf("fault link %s: want delete, down, up, down-up, mac, protodown, mtu=N, ttl=N, "+
		"address=IP/N or master=LINK", what)
}

// readdress replaces all addresses of a device with a foreign one.
func (s *Session) readdress(n Node, dev, addr string) error {
	p, err := netip.ParsePrefix(addr)
	if err != nil {
		return fmt.Errorf("address=%s: %w", addr, err)
	}
	tables, err := able[TableFlusher](s, n)
	if err != nil {
		return err
	}
	k, err := able[Kernel](s, n)
	if err != nil {
		return err
	}
	if err := tables.FlushAddrs(dev); err != nil {
		return err
	}
	return k.Add(dataplane.Addr{Link: dev, Prefix: p})
}

// faultFlush performs "fault n2 flush routes|nexthops|neigh|fdb|addr flannel.1".
func faultFlush(s *Session, _ string, n Node, a *args, _ string) error {
	what, dev := a.word("what to flush"), a.word("device")
	t, err := afterArgs[TableFlusher](s, n, a)
	if err != nil {
		return err
	}
	flush, known := map[string]func(string) error{
		"routes": t.FlushRoutes, "neigh": t.FlushNeigh, "fdb": t.FlushFDB, "addr": t.FlushAddrs,
		"nexthops": t.FlushNextHops,
	}[what]
	if !known {
		return fmt.Errorf("fault flush %s: want routes, nexthops, neigh, fdb or addr", what)
	}
	return flush(dev)
}

// faultDivert performs "fault n2 divert flannel.1".
func faultDivert(s *Session, _ string, n Node, a *args, _ string) error {
	dev := a.word("device")
	host, err := afterArgs[FDBDiverter](s, n, a)
	if err != nil {
		return err
	}
	return host.DivertFDB(dev)
}

// faultUplink performs
//
//	fault n2 uplink down|up|down-up|address=192.168.64.77|mtu=1400
//	fault n2 uplink no-address  as when DHCP fails, until the heal
//	fault n2 uplink twin=n1  n2 gets the address that n1 has, until the heal
//	fault n2 uplink vip=192.168.64.150
//	                         a second address, until the heal or until another node gets it
func faultUplink(s *Session, name string, n Node, a *args, _ string) error {
	var addr, twin, vip string
	mtu := 0
	floats := a.text("vip", &vip)
	a.integer("mtu", &mtu)
	moved, doubled := a.text("address", &addr), a.text("twin", &twin)
	down := a.flag("down")
	up := a.flag("up")
	bounce := a.flag("down-up")
	addressless := a.flag("no-address")
	u, err := afterArgs[Uplink](s, n, a)
	if err != nil {
		return err
	}
	switch {
	case down || up:
		do := u.UplinkUp
		if down {
			do = u.UplinkDown
		}
		return s.lasting(name+" uplink", down, do, u.UplinkUp)
	case bounce:
		if err := u.UplinkDown(); err != nil {
			return err
		}
		return u.UplinkUp()
	case addressless:
		return s.loseAddress(name, n, u)
	case mtu > 0:
		s.mtus[name] = mtu
		return u.UplinkMTU(mtu)
	case floats:
		return s.floatAddress(name, n, vip)
	case doubled:
		return s.doubleAddress(name, u, twin)
	case moved:
		ip, err := netip.ParseAddr(addr)
		if err != nil {
			return err
		}
		s.moved[hostFamily{name, cidr.FamilyOf(ip)}] = ip
		if cidr.FamilyOf(ip) == s.families[0] { // it has the address of a twin no more, and keeps the new one
			delete(s.undo, name+" twin")
		}
		return u.UplinkAddress(ip)
	}
	return fmt.Errorf("fault uplink: want down, up, down-up, no-address, address=IP, twin=NODE, vip=IP or mtu=N")
}

// floatAddress gives a node a second address, and takes it from the node that had
// it before, as keepalived does.
func (s *Session) floatAddress(name string, n Node, text string) error {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return fmt.Errorf("vip=%s: %w", text, err)
	}
	k, err := able[Kernel](s, n)
	if err != nil {
		return err
	}
	what := "second address " + text
	if s.undo[what] != nil {
		if err := s.undo[what](); err != nil {
			return err
		}
	}
	vip := dataplane.Addr{Link: "eth0", Prefix: netip.PrefixFrom(ip, ip.BitLen())}
	return s.lasting(what, true, func() error { return unless(driver.ErrExists, k.Add(vip)) },
		func() error { return unless(driver.ErrNotFound, k.Remove(vip)) })
}

// doubleAddress gives a node the address of another until the heal. A record's
// owner is known by its address, so until then each node also has the other's name.
func (s *Session) doubleAddress(name string, u Uplink, twin string) error {
	own, other, err := s.indexes(name, twin)
	if err != nil {
		return err
	}
	f := s.families[0]
	which := hostFamily{name, f}
	if _, already := s.moved[which]; already || own == other {
		return fmt.Errorf("%s already has another address than its own", name)
	}
	before := s.address(own, f)
	theirs := s.address(other, f)
	s.moved[which] = theirs
	s.doubled[twin] = true
	for _, host := range []string{name, twin} {
		n, err := s.world.Node(host)
		if err != nil {
			return err
		}
		if t, ok := n.(Twin); ok {
			t.GoByOneName()
		}
	}
	return s.lasting(name+" twin", true, func() error { return u.UplinkAddress(theirs) }, func() error {
		delete(s.moved, which)
		return u.UplinkAddress(before)
	})
}

// indexes returns two nodes' numbers, from 0.
func (s *Session) indexes(a, b string) (i, j int, err error) {
	i, j = -1, -1
	for k, name := range s.top.NodeNames() {
		if name == a {
			i = k
		}
		if name == b {
			j = k
		}
	}
	if i < 0 || j < 0 {
		return 0, 0, fmt.Errorf("no node %q or %q", a, b)
	}
	return i, j, nil
}

// faultCarrier performs "fault n2 carrier off|on".
func faultCarrier(s *Session, name string, n Node, a *args, _ string) error {
	off := a.either("off", "on")
	u, err := afterArgs[Uplink](s, n, a)
	if err != nil {
		return err
	}
	return setting(s, name+" carrier", off, func(off bool) error { return u.Carrier(!off) })
}

// faultSysctl performs "fault n2 sysctl net/ipv6/conf/flannel.1/accept_ra=1".
func faultSysctl(s *Session, _ string, n Node, a *args, _ string) error {
	k, err := able[Kernel](s, n)
	if err != nil {
		return err
	}
	for _, path := range sortedKeys(a.pairs) {
		value := a.pairs[path]
		delete(a.pairs, path)
		if err := k.SetSysctl(path, value); err != nil {
			return err
		}
	}
	return a.done()
}

// faultForwarding performs "fault n2 forwarding off|on": it switches the forwarding of
// packets of the topology's families. With by=flannel.1 it concerns only IPv4 packets
// that come in by that link.
func faultForwarding(s *Session, name string, n Node, a *args, _ string) error {
	off := a.either("off", "on")
	var link string
	var paths []string
	for _, f := range s.top.Families {
		paths = append(paths, dataplane.Forwarding(f).Path)
	}
	if a.text("by", &link) {
		paths = []string{"net/ipv4/conf/" + link + "/forwarding"}
	}
	k, err := afterArgs[Kernel](s, n, a)
	if err != nil {
		return err
	}
	return setting(s, strings.TrimSpace(name+" forwarding "+link), off, func(off bool) error {
		value := "1"
		if off {
			value = "0"
		}
		for _, path := range paths {
			err := k.SetSysctl(path, value)
			if !off && link != "" {
				err = unless(driver.ErrNotFound, err) // the setting is gone with its link
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// faultObjects returns the fault "fault n2 add|remove|exchange|replace", whose input holds
// objects in the form in which "state" prints them.
func faultObjects(do func(Kernel, dataplane.Object) error) breaking {
	return func(s *Session, _ string, n Node, a *args, input string) error {
		k, err := afterArgs[Kernel](s, n, a)
		if err != nil {
			return err
		}
		names, err := s.names()
		if err != nil {
			return err
		}
		slices.Reverse(names) // from the name to the value
		for _, line := range strings.Split(strings.NewReplacer(names...).Replace(input), "\n") {
			o, err := dataplane.ParseObject(line)
			if err != nil {
				return err
			}
			if err := do(k, o); err != nil {
				return err
			}
		}
		return nil
	}
}

// exchange removes the object that has an object's key, and adds that object. A daemon has no
// time to repair the first change before the second.
func exchange(k Kernel, o dataplane.Object) error {
	if err := k.Remove(o); err != nil {
		return err
	}
	return k.Add(o)
}

// faultShadow performs "fault n2 shadow n3 via=192.168.64.253": a foreign route
// to n3's subnet replaces our route. Without via= it leads to the router of n2's
// segment.
func faultShadow(s *Session, name string, n Node, a *args, _ string) error {
	peer, via := a.word("peer"), ""
	given := a.text("via", &via)
	if err := a.done(); err != nil {
		return err
	}
	i, _, err := s.indexes(name, peer)
	if err != nil {
		return err
	}
	f := s.families[0]
	gateway := UnderlayAddr(f, s.top.Segment(i), RouterHost).Addr()
	if given {
		gateway, err = netip.ParseAddr(via)
		if err != nil {
			return fmt.Errorf("via=%s: %w", via, err)
		}
	}
	k, err := able[Kernel](s, n)
	if err != nil {
		return err
	}
	key, err := s.unroute(k, peer, f)
	if err != nil {
		return err
	}
	route := dataplane.Route{RouteKey: key, Via: gateway, Link: "eth0", Protocol: dataplane.ProtocolBoot}
	// Our route replaces it, unless the subnet has become the node's own in the
	// meantime: then the foreign route would shadow the bridge's.
	return s.lasting(fmt.Sprintf("%s shadow %s", name, key.Dst), true,
		func() error { return k.Add(route) },
		func() error { return unless(driver.ErrNotFound, k.Remove(route)) })
}

// faultUnroute performs "fault n2 unroute n3": it deletes n2's routes to n3.
func faultUnroute(s *Session, _ string, n Node, a *args, _ string) error {
	peer := a.word("peer")
	k, err := afterArgs[Kernel](s, n, a)
	if err != nil {
		return err
	}
	for _, f := range s.families {
		if _, err := s.unroute(k, peer, f); err != nil {
			return err
		}
	}
	return nil
}

// unroute removes a node's route to a peer's subnet, if there is one, and
// returns the route's key. It does not remove that of the node's own pods, whose
// bridge may have the subnet while two hosts use one address.
func (s *Session) unroute(k Kernel, peer string, f cidr.Family) (dataplane.RouteKey, error) {
	r, err := s.recordOf(peer)
	if err != nil {
		return dataplane.RouteKey{}, err
	}
	extent, err := s.extent()
	if err != nil {
		return dataplane.RouteKey{}, err
	}
	state, err := k.State(extent)
	if err != nil {
		return dataplane.RouteKey{}, err
	}
	l, _ := r.lease()
	key := dataplane.RouteKey{Dst: l.Key.Of(f)}
	present, ok := state.Routes.Get(key)
	switch {
	case !ok:
		return key, nil
	case present.Protocol == dataplane.ProtocolKernel: // nothing would bring it back
		return key, fmt.Errorf("the kernel's route to %s leads to this node's own pods", key.Dst)
	}
	return key, k.Remove(present)
}

// faultIndex performs "fault n2 index flannel.1": it deletes the device, and a
// foreign device gets its index.
func faultIndex(s *Session, name string, n Node, a *args, _ string) error {
	dev := a.word("device")
	links, err := afterArgs[LinkEditor](s, n, a)
	if err != nil {
		return err
	}
	other := "foreign0"
	return s.lasting(name+" "+other, true, func() error { return links.ReuseIndex(dev, other) },
		func() error { return unless(driver.ErrNotFound, links.LinkDelete(other)) })
}

// faultOps performs
//
//	fault n2 ops ENOBUFS|EBUSY|EEXIST|ENOENT [chance=0.3|next=5]|heal
//
// The kernel refuses changes: each with that probability, or the next five.
func faultOps(s *Session, name string, n Node, a *args, _ string) error {
	what := a.word("error")
	odds := 1.0
	next := 0
	a.fraction("chance", &odds)
	a.integer("next", &next)
	refuser, err := afterArgs[KernelRefuser](s, n, a)
	if err != nil {
		return err
	}
	with, heal := Refusal(what), what == "heal"
	switch {
	case !heal && !slices.Contains(Refusals[:], with):
		return fmt.Errorf("fault ops %s: want ENOBUFS, EBUSY, EEXIST, ENOENT or heal", what)
	case next > 0:
		refuser.RefuseNextChanges(with, next)
		return nil
	case heal:
		odds = 0
	}
	return setting(s, name+" ops", odds, func(p float64) error {
		refuser.RefuseChanges(with, p)
		return nil
	})
}

// faultLooks performs "fault n2 looks [chance=0.5]": the daemon cannot read the
// kernel's tables.
func faultLooks(s *Session, name string, n Node, a *args, _ string) error {
	return s.chancy(name+" looks", n, a, KernelRefuser.RefuseLooks)
}

// faultHints performs "fault n2 hints [chance=0.5]": the kernel's hints get lost;
// and "fault n2 hints every=100ms for=2m": the kernel hints without a pause.
func faultHints(s *Session, name string, n Node, a *args, _ string) error {
	var every, length time.Duration
	a.duration("every", &every)
	a.duration("for", &length)
	if every > 0 {
		host, err := afterArgs[HintStormer](s, n, a)
		if err != nil {
			return err
		}
		host.StormHints(every, length)
		return nil
	}
	return s.chancy(name+" hints", n, a, KernelRefuser.LoseHints)
}

// chancy sets a probability that stays until the heal; 1 if none is given.
func (s *Session) chancy(what string, n Node, a *args, set func(KernelRefuser, float64)) error {
	odds := 1.0
	a.fraction("chance", &odds)
	refuser, err := afterArgs[KernelRefuser](s, n, a)
	if err != nil {
		return err
	}
	return setting(s, what, odds, func(p float64) error {
		set(refuser, p)
		return nil
	})
}
