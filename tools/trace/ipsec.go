package trace

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// SecurityRule is a policy of IPsec, of any program.
type SecurityRule struct {
	Dir      string // "in", "out" or "fwd"
	Src, Dst netip.Prefix
	Proto    string // of the packets that it selects, "" for all
	Port     uint16 // of the destination, 0 for all
	Priority uint32 // the lowest one counts
	Blocks   bool
	Demands  bool // packets have to come or go by IPsec
	Partial  bool // it selects by something else too, such as a mark
	Text     string
	own      bool // of flannel's tunnels
}

// readSecurity reads the policies of IPsec of all programs. A host without ip most likely has none.
func (k *Linux) readSecurity(ctx context.Context) []SecurityRule {
	var all []SecurityRule
	for _, family := range []string{"-4", "-6"} {
		if out, err := k.Run(ctx, "ip", family, "xfrm", "policy", "show"); err == nil {
			all = append(all, parseSecurity(string(out))...)
		}
	}
	return all
}

// parseSecurity reads what ip xfrm policy prints: a line with the packets, and indented ones with what happens to them.
func parseSecurity(text string) []SecurityRule {
	var all []SecurityRule
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if line[0] != ' ' && line[0] != '\t' {
			all = append(all, selected(words))
			continue
		}
		if len(all) == 0 {
			continue
		}
		r := &all[len(all)-1]
		switch words[0] {
		case "dir":
			r.Dir = words[min(1, len(words)-1)]
			r.Blocks = wordAfter(words, "action") == "block"
			priority, _ := strconv.ParseUint(wordAfter(words, "priority"), 10, 32) // 0 without
			r.Priority = uint32(priority)
			r.Text = strings.Join([]string{r.Text, "dir", r.Dir, "priority", strconv.FormatUint(priority, 10)}, " ")
		case "tmpl":
			r.Demands = true
		case "proto": // of the template
			r.own = r.own || wordAfter(words, "reqid") == strconv.Itoa(dataplane.ReqID)
		case "mark", "if_id", "security", "crypto":
			r.Partial = true
		}
	}
	return slices.DeleteFunc(all, func(r SecurityRule) bool {
		return r.Dir == "" || !r.Src.IsValid() || !r.Dst.IsValid() // one of a socket
	})
}

// selected reads the line that says which packets a policy selects.
func selected(words []string) SecurityRule {
	r := SecurityRule{Text: strings.Join(words, " ")}
	r.Src, _ = netip.ParsePrefix(wordAfter(words, "src")) // invalid: the policy is left out
	r.Dst, _ = netip.ParsePrefix(wordAfter(words, "dst"))
	r.Proto = wordAfter(words, "proto")
	port, _ := strconv.ParseUint(wordAfter(words, "dport"), 10, 16) // 0 without
	r.Port = uint16(port)
	r.Partial = slices.Contains(words, "sport") || slices.Contains(words, "dev") || slices.Contains(words, "type")
	return r
}

// wordAfter returns the word that follows another one, "" without.
func wordAfter(words []string, name string) string {
	if i := slices.Index(words, name); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

// selects reports whether a policy is about a packet.
func (r SecurityRule) selects(dir string, src, dst netip.Addr, o outer) bool {
	return r.Dir == dir && r.Src.Contains(src) && r.Dst.Contains(dst) &&
		(r.Proto == "" || o.proto == "" || r.Proto == o.proto) && (r.Port == 0 || o.port == 0 || r.Port == o.port)
}

// secured ends the walk if a policy of IPsec of another program blocks a packet.
func (w *walk) secured(step, dir string, src, dst netip.Addr, o outer) error {
	var first *SecurityRule
	for i, r := range w.view.Security {
		if r.selects(dir, src, dst, o) && (first == nil || r.Priority < first.Priority) {
			first = &w.view.Security[i]
		}
	}
	switch {
	case first == nil, first.isFlannels(), !first.Blocks && !first.Demands:
		return nil
	case first.Blocks && !first.Partial && (first.Port == 0 || o.port != 0):
		return w.end("xfrm_blocked", step, foreignPolicy, "an IPsec policy of another program blocks it: %s", first.Text)
	}
	w.doubt(step, fmt.Sprintf("an IPsec policy of another program is about it: %s", first.Text))
	return nil
}

// foreignPolicy is the remedy for a policy of IPsec that flannel did not make.
const foreignPolicy = "look at ip xfrm policy: the program that made that policy, such as a VPN, has to leave " +
	"flannel's network and the addresses of the nodes out"

// isFlannels reports whether a policy is one that flannel makes for the backend ipsec.
func (r SecurityRule) isFlannels() bool {
	return r.Priority == dataplane.PriorityBlock || r.Priority == dataplane.PriorityAllow ||
		r.own
}

// pass applies the policies of IPsec of other programs to the packet between two devices, or to this host.
func (w *walk) pass(dir string) error {
	o := outer{w.Flow.Proto, w.Flow.Port}
	if o.proto == "icmp" && cidr.FamilyOf(w.Flow.Dst) == cidr.V6 {
		o.proto = "ipv6-icmp"
	}
	return w.secured("policy", dir, w.Flow.Src, w.Flow.Dst, o)
}

// policies applies them where the host forwards or sends the packet.
func (w *walk) policies() error {
	if w.in != "" {
		if err := w.pass("fwd"); err != nil {
			return err
		}
	}
	return w.pass("out")
}
