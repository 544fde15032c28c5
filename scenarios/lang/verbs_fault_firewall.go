package lang

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// FirewallHarms are the kinds of harm to a host's packet filter, each with the
// kind that ends it, or "" for one that does not last. Every world can do them.
var FirewallHarms = map[string]string{
	"flush-ruleset":  "",
	"flush-iptables": "",
	"jump-moved":     "",
	"stray-rule":     "",
	"policy-drop":    "policy-accept",
	"policy-accept":  "",
	// The same for iptables-legacy, where iptables is the other variant.
	"legacy-drop":   "legacy-accept",
	"legacy-accept": "",
	"foreign-rule":  "",
	"firewalld":     "policy-accept",
	// The rules of firewalld, with [TrustedLinks] in the zone "trusted".
	"firewalld-zones": "no-zones",
	"no-zones":        "",
	"mark":            "no-mark",
	"no-mark":         "",
}

// TrustedLinks returns the links that an administrator puts into firewalld's
// zone "trusted": the pods' bridge and flannel's devices.
func TrustedLinks() []string { return []string{"cni0", "flannel.1", "flannel-v6.1", "flannel0"} }

// FirewallHarmNames lists the kinds of harm to a packet filter.
func FirewallHarmNames() []string { return append(sortedKeys(FirewallHarms), "locked") }

// faultFirewall performs
//
//	fault n2 firewall flush-ruleset|flush-iptables|jump-moved|stray-rule|policy-drop|policy-accept
//	fault n2 firewall legacy-drop|legacy-accept
//	fault n2 firewall foreign-rule|firewalld|firewalld-zones|mark=0xc000|locked for=3s
//	fault n2 firewall tools=nftables|none|old|all
//	                         the host has no iptables; neither program; old tools, which cannot choose
//	                         random ports; both tools in their present versions
func faultFirewall(s *Session, name string, n Node, a *args, _ string) error {
	tools := ""
	if a.text("tools", &tools) {
		return faultTools(s, n, a, tools)
	}
	length := time.Duration(0)
	mark := ""
	kind := ""
	bits := uint64(0)
	a.duration("for", &length)
	if a.text("mark", &mark) {
		var err error
		bits, err = strconv.ParseUint(mark, 0, 32)
		if err != nil {
			return fmt.Errorf("mark=%s: want a number of 32 bits", mark)
		}
		kind = "mark"
	} else {
		kind = a.word("what to do to it")
	}
	if err := a.done(); err != nil {
		return err
	}
	if kind == "locked" {
		locker, err := able[FirewallLocker](s, n)
		if err != nil {
			return err
		}
		locker.LockFirewall(length)
		return nil
	}
	undo, known := FirewallHarms[kind]
	if !known {
		return fmt.Errorf("fault firewall %s: want one of %s", kind, strings.Join(FirewallHarmNames(), ", "))
	}
	filter, err := able[Firewall](s, n)
	if err != nil {
		return err
	}
	do := func() error { return filter.Harm(kind, uint32(bits)) }
	if undo == "" {
		return do()
	}
	return s.lasting(name+" firewall "+undo, true, do, func() error { return filter.Harm(undo, 0) })
}

func faultTools(s *Session, n Node, a *args, tools string) error {
	box, err := afterArgs[FirewallToolbox](s, n, a)
	if err != nil {
		return err
	}
	return box.SetFirewallTools(tools)
}
