package check

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/tools/trace"
)

// ending returns a packet that ends at a step, or passes if the reason is empty.
func ending(out bool, reason, step, text, remedy string) Path {
	flow := trace.Flow{Src: netip.MustParseAddr("10.5.2.2"), Dst: netip.MustParseAddr("10.5.1.7")}
	if out {
		flow.Src, flow.Dst = flow.Dst, flow.Src
	}
	r := &trace.Result{Flow: flow, Reason: reason, Remedy: remedy, Hops: []trace.Hop{{Step: step, Text: text}}}
	return Path{Peer: netip.MustParseAddr("192.168.64.2"), Out: out, Kind: ofPods, Result: r}
}

// A packet that ends on the host is a failure, with a command only where a chain is known to drop it. Probes that fail
// for the same reason are no finding of their own.
func TestPaths(t *testing.T) {
	const byRaw = "rule 1 of chain PREROUTING (iptables-nft, table raw): -d 10.5.1.7/32 ! -i cni0 -j DROP drops it"
	for _, c := range []struct {
		name string
		path Path
		want string
	}{
		{"passes", ending(true, "", "leave", "by eth0", ""),
			"ok path: packets between pods pass all rules and routes of this host # \n"},
		{"no pod answers", ending(false, "neigh_failed", "neighbour", "no host", "is it running?"),
			"ok path: packets between pods pass all rules and routes of this host # \n"},
		{"raw PREROUTING", ending(false, "fw_drop", "prerouting", byRaw, "look"),
			"failure firewall: packets of pods from those of 192.168.64.2 end on this host: " + byRaw + ". What to do: look " +
				"# iptables -t raw -I PREROUTING -s 10.5.0.0/16 -d 10.5.0.0/16 -j ACCEPT\n"},
		{"a jump before flannel's", ending(true, "fw_drop", "filter",
			"rule 1 of chain HARDEN (iptables-legacy, table filter): -j REJECT drops it", "look"),
			"failure firewall: packets of pods to those of 192.168.64.2 end on this host: rule 1 of chain HARDEN " +
				"(iptables-legacy, table filter): -j REJECT drops it. What to do: look " +
				"# iptables-legacy -I HARDEN -s 10.5.0.0/16 -j ACCEPT; iptables-legacy -I HARDEN -d 10.5.0.0/16 -j ACCEPT\n"},
		{"the tunnel's packets", ending(false, "fw_drop", "arrive",
			"the policy of chain in (nftables, table inet fw) drops it", "look"),
			"failure port: no packet arrives by UDP port 8472 from 192.168.64.2: the policy of chain in (nftables, table " +
				"inet fw) drops it # nft insert rule inet fw in udp dport 8472 accept\n"},
		{"a chain whose name nft reads as more", ending(true, "fw_drop", "filter",
			"rule 1 of chain x;flush (nftables, table inet fw): drop drops it", "look"),
			"failure firewall: packets of pods to those of 192.168.64.2 end on this host: rule 1 of chain x;flush (nftables, " +
				"table inet fw): drop drops it. What to do: look # flannelctl trace 10.5.1.7 10.5.2.2\n"},
		{"a chain whose name a shell reads as more", ending(true, "fw_drop", "filter",
			"rule 1 of chain $(id) (iptables-nft, table filter): -j DROP drops it", "look"),
			"failure firewall: packets of pods to those of 192.168.64.2 end on this host: rule 1 of chain $(id) " +
				"(iptables-nft, table filter): -j DROP drops it. What to do: look # iptables -I '$(id)' -s 10.5.0.0/16 -j " +
				"ACCEPT; iptables -I '$(id)' -d 10.5.0.0/16 -j ACCEPT\n"},
		{"a device that does not forward", ending(false, "no_forwarding", "forward", "it forwards nothing", "sysctl -w x=1"),
			"failure path: packets of pods from those of 192.168.64.2 end on this host: it forwards nothing # sysctl -w x=1\n"},
		{"a rule of a VPN", ending(true, "no_route", "route", "ip rule leads it past flannel", "look at ip rule"),
			"failure path: packets of pods to those of 192.168.64.2 end on this host: ip rule leads it past flannel. " +
				"What to do: look at ip rule # flannelctl trace 10.5.1.7 10.5.2.2\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := probed(t, probe.Result{Finding: probe.Unreachable, Since: since, UplinkAnswers: true})
			f.Firewall.Tools[0].IPTables = driver.Tool{Usable: true, About: "iptables v1.8.9 (nf_tables)"}
			f.Paths = []Path{c.path}
			got := told(f.paths(), nil)
			if got != c.want {
				t.Errorf("told %swant %s", got, c.want)
			}
			if stuck := !strings.HasPrefix(c.want, "ok"); stuck != (len(f.peers()) == 0) {
				t.Errorf("beside it: %+v", f.peers())
			}
		})
	}
}

// What cannot be judged makes no warning, and is told.
func TestPathsAsFarAsKnown(t *testing.T) {
	f := healthy(t)
	unsure, translated := ending(true, "", "leave", "by eth0", ""), ending(true, "", "leave", "by eth0", "")
	unsure.Result.Unsure = []string{"rule 1"}
	f.Paths = []Path{unsure}
	if got := told(f.paths(), nil); !strings.HasPrefix(got, "ok path") || !strings.Contains(got, "as far as known") {
		t.Errorf("told %s", got)
	}
	translated.Result.Translated = "rule 2"
	f.Paths = append(f.Paths, translated)
	if got := told(f.paths(), nil); !strings.HasPrefix(got, "warning masquerade: rule 2 changes the source of packets") {
		t.Errorf("told %s", got)
	}
}
