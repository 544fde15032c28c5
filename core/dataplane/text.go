package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// String returns the canonical form of a link, such as
// "link flannel.1 type vxlan mtu 1450 mac c6:d2:32:6f:8f:44 up id 1 dev eth0 local 192.168.64.3 port 8472".
func (l Link) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "link %s type %s mtu %d", l.Name, l.Type, l.MTU)
	if !l.MAC.IsZero() {
		fmt.Fprintf(&b, " mac %s", l.MAC)
	}
	if l.Up {
		b.WriteString(" up")
	}
	if l.Type != LinkVXLAN {
		return b.String()
	}
	v := l.VXLAN
	fmt.Fprintf(&b, " id %d", v.VNI)
	if v.Parent != "" {
		fmt.Fprintf(&b, " dev %s", v.Parent)
	}
	if v.Local.IsValid() {
		fmt.Fprintf(&b, " local %s", v.Local)
	}
	fmt.Fprintf(&b, " port %d", v.Port)
	if v.Learning {
		b.WriteString(" learning")
	}
	if v.GBP {
		b.WriteString(" gbp")
	}
	return b.String()
}

// String returns the canonical form, such as "addr 10.5.1.0/32 dev flannel.1".
func (a Addr) String() string { return fmt.Sprintf("addr %s dev %s", a.Prefix, a.Link) }

// String returns the canonical form, such as
// "route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink". The protocol is
// shown unless it is ours.
func (r Route) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "route %s", r.Dst)
	if r.Kind != Unicast {
		fmt.Fprintf(&b, " %s", r.Kind)
	}
	if r.Via.IsValid() {
		fmt.Fprintf(&b, " via %s", r.Via)
	}
	if r.Link != "" {
		fmt.Fprintf(&b, " dev %s", r.Link)
	}
	if r.OnLink {
		b.WriteString(" onlink")
	}
	if r.Scope != ScopeGlobal {
		fmt.Fprintf(&b, " scope %d", r.Scope)
	}
	if r.Metric != 0 {
		fmt.Fprintf(&b, " metric %d", r.Metric)
	}
	if r.Protocol != Protocol {
		fmt.Fprintf(&b, " proto %d", r.Protocol)
	}
	if r.Other != "" {
		fmt.Fprintf(&b, " other %s", r.Other)
	}
	return b.String()
}

// String returns the canonical form, such as
// "neigh 10.5.3.0 lladdr c6:d2:32:6f:8f:44 dev flannel.1".
func (n Neigh) String() string { return fmt.Sprintf("neigh %s lladdr %s dev %s", n.IP, n.MAC, n.Link) }

// String returns the canonical form, such as
// "fdb c6:d2:32:6f:8f:44 dst 192.168.64.3 dev flannel.1".
func (f FDBEntry) String() string { return fmt.Sprintf("fdb %s dst %s dev %s", f.MAC, f.Dst, f.Link) }

// String returns the canonical form, such as
// "sysctl net/ipv6/conf/flannel.1/accept_ra = 0 dev flannel.1".
func (c Sysctl) String() string {
	s := fmt.Sprintf("sysctl %s = %s", c.Path, c.Value)
	if c.Link != "" {
		s += " dev " + c.Link
	}
	return s
}

// Dump returns one line an object, sorted by kind and key: equal states give
// equal text.
func (s State) Dump() string {
	var lines []string
	add := func(kind int, o Object) { lines = append(lines, strconv.Itoa(kind)+o.String()) }
	for _, o := range s.Links {
		add(0, o)
	}
	for o := range s.Addrs {
		add(1, o)
	}
	for _, o := range s.Sysctls {
		add(2, o)
	}
	for _, o := range s.Proxies {
		add(3, o)
	}
	for _, o := range s.Peers {
		add(4, o)
	}
	for _, o := range s.Neighs {
		add(5, o)
	}
	for _, o := range s.FDB {
		add(6, o)
	}
	for _, o := range s.Routes {
		add(7, o)
	}
	for _, o := range s.Chains {
		add(8, o)
	}
	slices.Sort(lines)
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l[1:])
		b.WriteByte('\n')
	}
	return b.String()
}

// ParseDump reads what Dump wrote.
func ParseDump(text string) (State, error) {
	s := NewState(0)
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		o, err := ParseObject(line)
		if err != nil {
			return State{}, fmt.Errorf("line %d: %w", i+1, err)
		}
		s.Put(o)
	}
	return s, nil
}

// Put adds an object of any kind under its key.
func (s *State) Put(o Object) {
	switch o := o.(type) {
	case Link:
		s.Links[o.Name] = o
	case Addr:
		s.Addrs[o] = struct{}{}
	case Route:
		s.Routes[o.RouteKey] = o
	case Neigh:
		s.Neighs[o.NeighKey] = o
	case FDBEntry:
		s.FDB[o.FDBKey] = o
	case Sysctl:
		s.Sysctls[o.Path] = o
	case Chain:
		s.Chains[o.ChainKey] = o
	case Proxy:
		s.Proxies[o.Link] = o
	case Peer:
		s.Peers[o.PeerKey] = o
	}
}

// ParseOp reads the canonical form of an op.
func ParseOp(line string) (Op, error) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	for _, v := range []Verb{Create, Replace, Delete} {
		if v.String() != verb {
			continue
		}
		o, err := ParseObject(rest)
		return Op{v, o}, err
	}
	return Op{}, fmt.Errorf("op %q: want add, replace or del", line)
}

// ParseObject reads the canonical form of one object.
func ParseObject(line string) (Object, error) {
	f := &fields{words: strings.Fields(line)}
	var o Object
	switch kind := f.next(); kind {
	case "link":
		o = f.link()
	case "addr":
		o = Addr{Prefix: f.prefix(), Link: f.after("dev")}
	case "route":
		o = f.route()
	case "neigh":
		n := Neigh{NeighKey: NeighKey{IP: f.addr(f.next())}}
		n.MAC = f.mac(f.after("lladdr"))
		n.Link = f.after("dev")
		o = n
	case "fdb":
		e := FDBEntry{FDBKey: FDBKey{MAC: f.mac(f.next())}}
		e.Dst = f.addr(f.after("dst"))
		e.Link = f.after("dev")
		o = e
	case "sysctl":
		c := Sysctl{Path: f.next(), Value: f.after("=")}
		if len(f.words) > 0 {
			c.Link = f.after("dev")
		}
		o = c
	case "chain":
		c, err := parseChain(strings.TrimPrefix(strings.TrimSpace(line), kind))
		o, f.words, f.err = c, nil, err
	case "proxy":
		o = f.proxy()
	case "peer":
		o = f.peer()
	default:
		return nil, fmt.Errorf("object %q: unknown kind %q", line, kind)
	}
	if f.err == nil && len(f.words) > 0 {
		f.fail("unexpected %q", f.words[0])
	}
	if f.err != nil {
		return nil, fmt.Errorf("object %q: %w", line, f.err)
	}
	return o, nil
}

// fields reads words in order and keeps the first error.
type fields struct {
	words []string
	err   error
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

func (f *fields) next() string {
	if len(f.words) == 0 {
		f.fail("line ends early")
		return ""
	}
	w := f.words[0]
	f.words = f.words[1:]
	return w
}

func (f *fields) after(keyword string) string {
	if w := f.next(); w != keyword {
		f.fail("want %q, have %q", keyword, w)
	}
	return f.next()
}

func (f *fields) number(bits int) uint64 {
	n, err := strconv.ParseUint(f.next(), 10, bits)
	if err != nil {
		f.fail("%w", err)
	}
	return n
}

func (f *fields) addr(s string) netip.Addr {
	a, err := netip.ParseAddr(s)
	if err != nil {
		f.fail("%w", err)
	}
	return a
}

func (f *fields) addrPort(s string) netip.AddrPort {
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		f.fail("%w", err)
	}
	return a
}

func (f *fields) prefix() netip.Prefix {
	p, err := netip.ParsePrefix(f.next())
	if err != nil {
		f.fail("%w", err)
	}
	return p
}

func (f *fields) mac(s string) MAC {
	m, err := ParseMAC(s)
	if err != nil {
		f.fail("%w", err)
	}
	return m
}

func (f *fields) link() Link {
	l := Link{Name: f.next(), Type: LinkType(f.after("type"))}
	for len(f.words) > 0 && f.err == nil {
		switch word := f.next(); word {
		case "mtu":
			l.MTU = int(f.number(31))
		case "mac":
			l.MAC = f.mac(f.next())
		case "up":
			l.Up = true
		case "id":
			l.VXLAN.VNI = uint32(f.number(24))
		case "dev":
			l.VXLAN.Parent = f.next()
		case "local":
			l.VXLAN.Local = f.addr(f.next())
		case "port":
			l.VXLAN.Port = uint16(f.number(16))
		case "learning":
			l.VXLAN.Learning = true
		case "gbp":
			l.VXLAN.GBP = true
		default:
			f.fail("unexpected %q", word)
		}
	}
	return l
}

func (f *fields) route() Route {
	r := Route{RouteKey: RouteKey{Dst: f.prefix()}, Protocol: Protocol}
	for len(f.words) > 0 && f.err == nil {
		switch word := f.next(); word {
		case string(Blackhole):
			r.Kind = Blackhole
		case "via":
			r.Via = f.addr(f.next())
		case "dev":
			r.Link = f.next()
		case "onlink":
			r.OnLink = true
		case "scope":
			r.Scope = Scope(f.number(8))
		case "metric":
			r.Metric = uint32(f.number(32))
		case "proto":
			r.Protocol = uint8(f.number(8))
		case "other":
			r.Other = f.next()
		default:
			f.fail("unexpected %q", word)
		}
	}
	return r
}
