package firewall

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/dataplane"
)

// The rules of another daemon, with the network 10.6.0.0/16, and the two daemons' chains together.
var (
	otherForward = "from 10.6.0.0/16 accept; to 10.6.0.0/16 accept"
	otherMasq    = "from 10.6.1.0/24 to 10.6.0.0/16 return; from 10.6.0.0/16 to 10.6.1.0/24 return; " +
		"from !10.6.0.0/16 to 10.6.1.0/24 return; from 10.6.0.0/16 to !224.0.0.0/4 masquerade; " +
		"from !10.6.0.0/16 to 10.6.0.0/16 masquerade"

	parts = "from 10.6.0.0/16 to 10.7.0.0/16 drop"

	masqsAlone = "chain FLAVOUR ipv4 postrouting jump placed { mark 0x4000/0x4000 return; " + otherMasq + " }\n"

	after = strings.NewReplacer(" }\n", "; "+otherForward+" }\n").Replace(forward4)
	first = strings.Replace(forward4, "{ ", "{ "+otherForward+"; ", 1)
	masqs = strings.Replace(masq4, " }\n", "; "+otherMasq+" }\n", 1)
)

func TestKeepRulesOfOtherDaemons(t *testing.T) {
	both := Options{Masquerade: true, Forward: true}
	alone := "chain FLAVOUR ipv4 forward jump placed { " + otherForward + " }\n"
	for name, c := range map[string]struct {
		opts       Options
		have, want string
	}{
		"nothing there":       {both, "", masq4 + forward4},
		"the other one's":     {both, alone, masq4 + after},
		"both":                {both, masqs + after, masqs + after},
		"in the other order":  {both, masqs + first, masqs + first},
		"an own rule missing": {both, masqs + strings.Replace(first, "; to 10.5.0.0/16 accept", "", 1), masqs + after},
		"our mark missing":    {both, strings.Replace(masqs, "mark 0x4000/0x4000 return; ", "", 1) + after, masqs + after},
		"an own rule twice": {both, masqs + strings.Replace(first, " }", "; to 10.5.0.0/16 accept }", 1),
			masqs + after},
		"the jump moved":            {both, masqs + strings.Replace(after, "jump placed", "jump moved", 1), masqs + after},
		"half of the other's":       {both, strings.Replace(alone, "; to 10.6.0.0/16 accept", "", 1), masq4 + forward4},
		"rules of a former network": {both, strings.ReplaceAll(alone, "10.6", "10.4"), masq4 + forward4},
		"a foreign rule":            {both, strings.Replace(alone, "{ ", "{ from 10.9.0.0/16 drop; ", 1), masq4 + after},
		"a rule that parts the other one's networks": {both, strings.Replace(after, "{ ", "{ "+parts+"; ", 1),
			masq4 + strings.Replace(after, "{ ", "{ "+parts+"; ", 1)},
		// 10.6.0.0/16 was a network of this daemon, before a start without it.
		"a rule that parted ours from it": {both, strings.Replace(after, "{ ", "{ from 10.6.0.0/16 to 10.5.0.0/16 drop; ", 1),
			masq4 + after},
		"no own rules":         {Options{}, alone, alone},
		"ours to be removed":   {Options{}, masqs + after, masqsAlone + alone},
		"ours alone, unwanted": {Options{}, masq4 + forward4, ""},
		"no own rules, the other's jump missing": {Options{}, strings.Replace(alone, "placed", "missing", 1),
			strings.Replace(alone, "placed", "missing", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			have, err := dataplane.ParseDump(spelt(t, c.have, "iptables", "masquerade"))
			if err != nil {
				t.Fatal(err)
			}
			net := dual(false)
			net.V6.Network = netip.Prefix{}
			c.opts.NoRandom = true
			got := Render(c.opts, net, own(), everything())
			got.Keep(have, []netip.Prefix{net.V4.Network, netip.MustParsePrefix("10.4.0.0/16")})
			if d := cmp.Diff(spelt(t, c.want, "iptables", "masquerade"), got.Chains.Dump()); d != "" {
				t.Errorf("chains (-want +got):\n%s", d)
			}
		})
	}
}
