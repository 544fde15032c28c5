package dataplane

import (
	"strings"

	"github.com/flanneld/flannel/core/cidr"
)

// Sysctl is a kernel setting by its path below /proc/sys, such as
// "net/ipv6/conf/flannel.1/accept_ra". [TxChecksum] is one that has no file there.
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

// The values of a feature of a device, as ethtool -k shows them.
const (
	FeatureOn  = "on"
	FeatureOff = "off"
)

// The path of [TxChecksum] is the name of the device between these two.
const (
	featurePrefix    = "ethtool/"
	txChecksumSuffix = "/tx-checksum-ip-generic"
)

// TxChecksum returns the setting that lets the network card, or whatever device is below
// this one, complete the checksums of outgoing packets. If it is off, the kernel
// completes them. It is a feature of the device, as ethtool -k shows it, and behaves like
// a setting: it comes and goes with the device, and a kernel may refuse to change it.
func TxChecksum(link, value string) Sysctl {
	return Sysctl{Path: featurePrefix + link + txChecksumSuffix, Value: value, Link: link}
}

// TxChecksumOf returns the device whose [TxChecksum] has a path.
func TxChecksumOf(path string) (link string, is bool) {
	link, prefixed := strings.CutPrefix(path, featurePrefix)
	link, suffixed := strings.CutSuffix(link, txChecksumSuffix)
	return link, prefixed && suffixed
}

// String returns the canonical form, such as
// "sysctl net/ipv6/conf/flannel.1/accept_ra = 0 dev flannel.1".
func (c Sysctl) String() string {
	var l line
	l.add(true, "sysctl %s = %s", c.Path, c.Value)
	l.add(c.Link != "", "dev %s", c.Link)
	return l.String()
}

func (Sysctl) kind() *kind { return &sysctlKind }

func (c Sysctl) mapKey() string { return c.Path }

var sysctlKind = mapKind("sysctl", parseSysctl, func(s *State) *map[string]Sysctl { return &s.Sysctls })

func parseSysctl(f *fields) Object {
	c := Sysctl{Path: f.next(), Value: f.after("=")}
	if len(f.words) > 0 {
		c.Link = f.after("dev")
	}
	return c
}
