package trace

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/tools/ruleset"
)

// programRules are those of all programs on a host.
type programRules struct {
	tables   [2]ruleset.Tables
	policies [2][]PolicyRule
	security []SecurityRule
	frames   []string
	unread   []string
}

// readRules reads the rules of all programs. A host without a tool most likely has no
// rules that need it.
func (k *Linux) readRules(ctx context.Context) *programRules {
	v := new(programRules)
	read := func(argv ...string) []byte {
		out, err := k.Run(ctx, argv...)
		if err != nil && !errors.Is(err, exec.ErrNotFound) {
			v.unread = append(v.unread, fmt.Sprintf("%s: %v", argv[0], err))
		}
		if err != nil {
			return nil
		}
		return out
	}
	v.security = k.readSecurity(ctx)
	nft := read("nft", "-j", "list", "ruleset")
	v.frames = ruleset.Bridges(nft)
	for _, f := range cidr.Families {
		program := cidr.Pick(f, "iptables", "ip6tables")
		converted := read(program + "-nft-save")
		legacy := read(program + "-legacy-save")
		v.tables[f] = append(ruleset.IPTables(program+"-nft", string(converted)),
			ruleset.IPTables(program+"-legacy", string(legacy))...)
		if out, err := k.Run(ctx, "ip", cidr.Pick(f, "-4", "-6"), "-N", "rule", "show"); err == nil {
			v.policies[f] = parsePolicies(string(out)) // without them, the kernel still names the table
		}
		if nft == nil {
			continue
		}
		shown := func(table string) bool { return converted != nil && slices.Contains(iptablesTables, table) }
		tables, err := ruleset.NFT(f, nft, shown)
		if err != nil {
			v.unread = append(v.unread, err.Error())
		}
		v.tables[f] = append(v.tables[f], tables...)
	}
	return v
}

// iptablesTables are the tables that iptables-nft makes. nft shows their rules in part.
var iptablesTables = []string{"filter", "nat", "mangle", "raw", "security"}

// parsePolicies reads what ip -N rule show prints.
func parsePolicies(text string) []PolicyRule {
	var all []PolicyRule
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		table, err := strconv.ParseUint(wordAfter(words, "lookup"), 10, 32)
		if err != nil {
			table = 0 // it drops packets, or jumps to another rule
		}
		if len(words) > 0 {
			all = append(all, PolicyRule{uint32(table), strings.Join(words, " ")})
		}
	}
	return all
}

// OnDevice implements [DeviceHooks].
func (k *Linux) OnDevice(link string, out bool) (drops string, doubts []string) {
	if k.Run == nil {
		return "", nil
	}
	side := map[bool]string{false: "ingress", true: "egress"}[out]
	if text := k.printed("tc", "filter", "show", "dev", link, side); text != "" {
		name := fmt.Sprintf("the filter of tc at %s of %s", side, link)
		if strings.Contains(text, "matchall") && strings.Contains(text, "action drop") {
			return name + ": " + text, nil
		}
		doubts = append(doubts, name+": "+text)
	}
	if queue := k.printed("tc", "qdisc", "show", "dev", link); out && isShaper(queue) {
		if strings.Contains(queue, "loss 100%") || strings.HasPrefix(queue, "qdisc blackhole ") {
			return fmt.Sprintf("the queue of %s: %s", link, queue), nil
		}
		doubts = append(doubts, fmt.Sprintf("the queue of %s: %s", link, queue))
	}
	if !out && strings.Contains(k.printed("ip", "-o", "link", "show", "dev", link), "prog/xdp") {
		doubts = append(doubts, "the program of XDP on "+link)
	}
	return "", doubts
}

// isShaper reports whether a device has a queue that may drop packets though there is room: it is slower than the
// device, or drops some on purpose.
func isShaper(queue string) bool {
	words := strings.Fields(queue)
	shapes := func(kind string) bool {
		i := slices.Index(words, kind)
		return i > 0 && words[i-1] == "qdisc"
	}
	return slices.ContainsFunc([]string{"netem", "tbf", "htb", "hfsc", "cbq", "blackhole"}, shapes)
}

// printed returns the output of a program in one line, empty if it fails: a host without tc has none of its filters.
func (k *Linux) printed(argv ...string) string {
	out, err := k.Run(context.Background(), argv...)
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(out)), " ")
}
