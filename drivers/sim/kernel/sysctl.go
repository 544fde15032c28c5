package kernel

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// perLink lists the settings that come and go with a link, with the values of a
// fresh kernel. Forwarding follows the setting for all links.
var perLink = [2][]struct{ name, value string }{
	{{"accept_local", "0"}, {"forwarding", "0"}, {"rp_filter", "0"}},
	{{"accept_ra", "1"}, {"disable_ipv6", "0"}, {"forwarding", "0"}, {"keep_addr_on_down", "0"}},
}

const (
	sysctlForward4 = "net/ipv4/ip_forward"
	sysctlForward6 = "net/ipv6/conf/all/forwarding"
	sysctlKeep6    = "net/ipv6/conf/all/keep_addr_on_down"
	sysctlRPFilter = "net/ipv4/conf/all/rp_filter"
)

// makeSysctls4 and makeSysctls6 create the settings of a link.
func (s *stack) makeSysctls4(link string) {
	for _, c := range perLink[0] {
		s.sysctls["net/ipv4/conf/"+link+"/"+c.name] = c.value
	}
	s.sysctls["net/ipv4/conf/"+link+"/forwarding"] = s.sysctls[sysctlForward4]
}

func (s *stack) makeSysctls6(link string) {
	for _, c := range perLink[1] {
		s.sysctls["net/ipv6/conf/"+link+"/"+c.name] = c.value
	}
	s.sysctls["net/ipv6/conf/"+link+"/forwarding"] = s.sysctls[sysctlForward6]
}

func (s *stack) dropSysctls(prefix string) {
	for path := range s.sysctls {
		if strings.HasPrefix(path, prefix) {
			delete(s.sysctls, path)
		}
	}
}

// setting returns a setting of a link.
func (s *stack) setting(l *link, f cidr.Family, name string) string {
	return s.sysctls[[...]string{"net/ipv4/conf/", "net/ipv6/conf/"}[f]+l.name+"/"+name]
}

// isOn reads a setting as the kernel reads a switch. A missing one is off.
func isOn(value string) bool { return value != "" && value != "0" }

// setSysctl sets a setting as a write to its file does.
func (s *stack) setSysctl(path, value string) error {
	if _, ok := s.sysctls[path]; !ok {
		return driver.ErrNotFound
	}
	if _, feature := dataplane.TxChecksumOf(path); feature {
		if value != dataplane.FeatureOn && value != dataplane.FeatureOff {
			return fmt.Errorf("value %q: %w", value, driver.ErrInvalid)
		}
	} else if _, err := strconv.ParseInt(value, 10, 32); err != nil {
		return fmt.Errorf("value %q: %w", value, driver.ErrInvalid)
	}
	changed := s.sysctls[path] != value
	s.sysctls[path] = value
	switch path {
	case sysctlForward4:
		if changed { // IPv6 does so in any case
			s.setForwarding("net/ipv4/conf/", value)
		}
	case sysctlForward6:
		s.setForwarding("net/ipv6/conf/", value)
	}
	for _, l := range s.links {
		if path != "net/ipv6/conf/"+l.name+"/disable_ipv6" {
			continue
		}
		if isOn(value) {
			l.stop6(false, (*route).sleep)
		} else {
			l.start6()
		}
	}
	return nil
}

func (s *stack) setForwarding(family, value string) {
	for _, l := range s.links {
		if path := family + l.name + "/forwarding"; s.sysctls[path] != "" {
			s.sysctls[path] = value
		}
	}
}
