package dataplane

import "github.com/flanneld/flannel/core/cidr"

// Sysctl is a kernel setting by its path below /proc/sys, such as
// "net/ipv6/conf/flannel.1/accept_ra".
type Sysctl struct {
	Path  string
	Value string
	Link  string // the device that the setting belongs to and that must exist first
}

// Forwarding returns the setting that makes a host forward packets of a family.
func Forwarding(f cidr.Family) Sysctl {
	path := [...]string{cidr.V4: "net/ipv4/ip_forward", cidr.V6: "net/ipv6/conf/all/forwarding"}[f]
	return Sysctl{Path: path, Value: "1"}
}

// String returns the canonical form, such as
// "sysctl net/ipv6/conf/flannel.1/accept_ra = 0 dev flannel.1".
func (c Sysctl) String() string {
	var l line
	l.add(true, "sysctl %s = %s", c.Path, c.Value)
	l.add(c.Link != "", "dev %s", c.Link)
	return l.String()
}

func (c Sysctl) putIn(s *State) { s.AddSysctl(c) }

var sysctlKind = kind{
	word:  "sysctl",
	parse: parseSysctl,
	each:  func(s *State, do func(Object)) { eachOf(s.Sysctls, do) },
}

func parseSysctl(f *fields) Object {
	c := Sysctl{Path: f.next(), Value: f.after("=")}
	if len(f.words) > 0 {
		c.Link = f.after("dev")
	}
	return c
}
