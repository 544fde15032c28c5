package trace

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/tools/ruleset"
)

// recorded returns an output of iptables-save or nft -j list ruleset, as the programs printed it.
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("../ruleset/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A walk ends at a rule about the packet's protocol and port, at a rule about the tunnel's packets that leave, and
// at one about those that arrive.
func TestFiltersEndAWalk(t *testing.T) {
	table := func(rules string) ruleset.Tables {
		const head = "*filter\n:FORWARD ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n"
		return ruleset.IPTables("iptables", head+rules)
	}
	for _, c := range []struct {
		name, rules, src, dst, proto string
		port                         uint16
		step                         string // "": it passes
	}{
		{"another port", "-A FORWARD -p tcp --dport 80 -j DROP\n", "10.5.1.7", "10.5.2.7", "tcp", 81, ""},
		{"the port", "-A FORWARD -p tcp --dport 80 -j DROP\n", "10.5.1.7", "10.5.2.7", "tcp", 80, "filter"},
		{"the tunnel's packets leave", "-A OUTPUT -p udp --dport 8472 -j REJECT\n", "10.5.1.7", "10.5.2.7", "tcp", 80,
			"underlay"},
		{"they arrive", "-A INPUT -i eth0 -p udp --dport 8472 -j DROP\n", "10.5.2.7", "10.5.1.7", "tcp", 80, "arrive"},
		{"from another host", "-A INPUT -s 192.168.64.9 -p udp --dport 8472 -j DROP\n", "10.5.2.7", "10.5.1.7", "tcp", 80,
			""},
		{"to the host", "-A INPUT -p tcp --dport 22 -j DROP\n", "10.5.1.7", "192.168.64.1", "tcp", 22, "filter"},
		{"from the host", "-A OUTPUT -p icmp -o flannel.1 -j DROP\n", "10.5.1.0", "10.5.2.7", "icmp", 0, "filter"},
	} {
		k := healthy(t)
		k.routes["192.168.64.2"] = Route{Link: "eth0", Src: addr("192.168.64.1")}
		k.view.Rules[cidr.V4] = table(c.rules)
		flow := Flow{Src: addr(c.src), Dst: addr(c.dst), Size: 84, Proto: c.proto, Port: c.port}
		r, err := Walk(t.Context(), k, flow, known)
		if err != nil {
			t.Fatal(err)
		}
		last := r.Hops[len(r.Hops)-1]
		if dropped := r.Reason == "fw_drop"; dropped != (c.step != "") || dropped && last.Step != c.step {
			t.Errorf("%s, want the end at %q:\n%s", c.name, c.step, text(t, r))
		}
	}
}

// A drop by flannel's guard of an unencrypted device is no rule to remove.
func TestGuardDrops(t *testing.T) {
	const rules = "*filter\n:INPUT ACCEPT [0:0]\n:FLANNEL-INPUT - [0:0]\n" +
		"-A INPUT -p udp -m udp --dport 8472 -m comment --comment \"flanneld guard\" -j FLANNEL-INPUT\n" +
		"-A FLANNEL-INPUT -i lo -m comment --comment \"flanneld guard 10.5.0.0/16\" -j RETURN\n" +
		"-A FLANNEL-INPUT -s FROM -p udp -m udp --dport 8472 -m comment --comment \"flanneld guard 10.5.0.0/16\" " +
		"-j RETURN\n" +
		"-A FLANNEL-INPUT -p udp -m udp --dport 8472 -m comment --comment \"flanneld guard 10.5.0.0/16\" -j DROP\n"
	for from, reason := range map[string]string{"192.168.64.2/32": "", "192.168.64.9/32": "fw_drop"} {
		k := healthy(t)
		k.routes["192.168.64.2"] = Route{Link: "eth0", Src: addr("192.168.64.1")}
		k.view.Rules[cidr.V4] = ruleset.IPTables("iptables", strings.ReplaceAll(rules, "FROM", from))
		flow := Flow{Src: addr("10.5.2.7"), Dst: addr("10.5.1.7"), Size: 84, Proto: "tcp", Port: 80}
		r, err := Walk(t.Context(), k, flow, known)
		if err != nil {
			t.Fatal(err)
		}
		if r.Reason != reason || (reason != "") != strings.Contains(r.Remedy, "flannelctl change") {
			t.Errorf("with %s admitted, want %q:\n%s", from, reason, text(t, r))
		}
	}
}

// The rules come from the programs of the host. One that is not installed has none; one that fails is named.
func TestReadingTheRules(t *testing.T) {
	k := &Linux{Run: func(_ context.Context, argv ...string) ([]byte, error) {
		switch argv[0] {
		case "nft":
			return recorded(t, "nft.json"), nil
		case "iptables-legacy-save":
			return recorded(t, "iptables.txt"), nil
		case "ip6tables-legacy-save":
			return nil, errors.New("the lock is held")
		}
		return nil, &exec.Error{Name: argv[0], Err: exec.ErrNotFound}
	}}
	v := k.readRules(t.Context())
	if got := strings.Join(v.unread, "; "); got != "ip6tables-legacy-save: the lock is held" {
		t.Errorf("unread: %s", got)
	}
	pod := ruleset.Packet{Src: addr("10.5.1.7"), Dst: addr("10.5.2.7"), In: "cni0", Out: "flannel.1", Proto: "tcp"}
	for port, program := range map[uint16]string{25: "iptables-legacy", 80: "nftables"} {
		pod.Port = port
		if j := v.tables[cidr.V4].Judge(ruleset.Forward, pod); !strings.Contains(j.Drops, program) {
			t.Errorf("port %d: %+v", port, j)
		}
	}
}

// Packets of a connection that has begun, and those of a tunnel whose addresses a rule changes, end where Linux ends
// them.
func TestEndsOfOtherPackets(t *testing.T) {
	const filter = "*filter\n:FORWARD ACCEPT [0:0]\n"
	const nat = "*nat\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n"
	for _, c := range []struct {
		name, rules, src, dst string
		established           bool
		reason, step          string
	}{
		{"answers are dropped", filter + "-A FORWARD -m conntrack --ctstate ESTABLISHED -j DROP\n", "10.5.1.7", "10.5.2.7",
			true, "fw_drop", "filter"},
		{"new packets pass them", filter + "-A FORWARD -m conntrack --ctstate ESTABLISHED -j DROP\n", "10.5.1.7",
			"10.5.2.7", false, "", "leave"},
		{"answers pass a rule about new ones", filter + "-A FORWARD -m conntrack --ctstate NEW -j DROP\n", "10.5.1.7",
			"10.5.2.7", true, "", "leave"},
		{"answers meet no rule of the table nat", nat + "-A PREROUTING -j DNAT --to-destination 10.5.2.9\n", "10.5.1.7",
			"10.5.2.7", true, "", "leave"},
		{"pods are led to the host", nat + "-A PREROUTING -i cni0 -j REDIRECT\n", "10.5.1.7", "10.5.2.7", false,
			"translated", "prerouting"},
		{"the tunnel is led elsewhere", nat + "-A OUTPUT -p udp --dport 8472 -j DNAT --to-destination 192.168.64.9\n",
			"10.5.1.7", "10.5.2.7", false, "translated", "underlay"},
		{"the tunnel is led to another port", nat + "-A PREROUTING -p udp --dport 8472 -j REDIRECT --to-ports 9\n",
			"10.5.2.7", "10.5.1.7", false, "translated", "arrive"},
	} {
		k := healthy(t)
		k.routes["192.168.64.2"] = Route{Link: "eth0", Src: addr("192.168.64.1")}
		k.view.Rules[cidr.V4] = ruleset.IPTables("iptables", c.rules)
		r, err := Walk(t.Context(), k, Flow{Src: addr(c.src), Dst: addr(c.dst), Size: 84, Proto: "icmp",
			Established: c.established}, known)
		if err != nil {
			t.Fatal(err)
		}
		if last := r.Hops[len(r.Hops)-1]; r.Reason != c.reason || last.Step != c.step {
			t.Errorf("%s, want %q at %q:\n%s", c.name, c.reason, c.step, text(t, r))
		}
	}
}

// A mark that a rule gives the tunnel's packet leads it by another route, as far as known to where it belongs.
func TestMarkOfTheTunnel(t *testing.T) {
	const mark = "*mangle\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -p udp --dport 8472 -j MARK --set-mark 0x9\n"
	k := &markedKernel{fakeKernel: healthy(t)}
	k.routes["192.168.64.2"] = Route{Link: "eth0", Src: addr("192.168.64.1")}
	k.view.Rules[cidr.V4] = ruleset.IPTables("iptables", mark)
	if r := trace(t, k, "10.5.1.7", "10.5.2.7", 84); r.Reason != "blackhole" || r.Hops[len(r.Hops)-1].Step != "underlay" {
		t.Errorf("the way with the mark drops it: %s", text(t, r))
	}
	k.other = "ts0"
	r := trace(t, k, "10.5.1.7", "10.5.2.7", 84)
	if len(r.Unsure) != 1 || !strings.Contains(r.Unsure[0], "leaves by ts0") {
		t.Errorf("another device: %s", text(t, r))
	}
}

// markedKernel has another way for packets with a mark, or none.
type markedKernel struct {
	*fakeKernel
	other string
}

func (k *markedKernel) Route(q Question) (Route, error) {
	switch {
	case q.Mark == 0:
		return k.fakeKernel.Route(q)
	case k.other == "":
		return Route{}, ErrBlackhole
	}
	return Route{Link: k.other, Table: 60}, nil
}
