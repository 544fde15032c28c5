package reconcile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/dataplane"
)

// The device of port 4789, and what is on it.
const (
	device4789 = "link flannel.1 type vxlan mtu 1450 mac c6:00:00:00:00:01 up id 1 dev eth0 local 192.168.64.3 port 4789\n"
	rename     = "\nreplace link fl.1.8472 type vxlan mtu 1450 mac c6:00:00:00:00:01 up was flannel.1 " +
		"id 1 dev eth0 local 192.168.64.3 port 8472"
)

func aside(text string) string { return strings.ReplaceAll(text, "flannel.1", "fl.1.8472") }

func TestRenames(t *testing.T) {
	names := []dataplane.Renaming{
		{From: "fl.1.8472", To: "flannel.1"}, {From: "flannel.1", To: "fl.1.8472"}, {From: "flannel.1", To: "fl.1.4789"},
	}
	for name, c := range map[string]struct{ want, have, ops string }{
		"the present port beside the former": {want: device4789 + aside(self+peer), have: self + peer,
			ops: rename + "\nadd " + strings.TrimSpace(device4789)},
		"what a rename leaves is compared": {want: device4789 + aside(self+peer), have: self,
			ops: rename + "\nadd " + strings.TrimSpace(device4789) +
				"\nreplace fdb c6:00:00:00:00:03 dst 192.168.64.4 dev fl.1.8472" +
				"\nreplace neigh 10.5.3.0 lladdr c6:00:00:00:00:03 dev fl.1.8472" +
				"\nadd route 10.5.3.0/24 via 10.5.3.0 dev fl.1.8472 onlink"},
		"back to the previous port": {want: self + peer + strings.ReplaceAll(device4789, "flannel.1", "fl.1.4789"),
			have: device4789 + aside(self+peer),
			ops: "\nreplace link fl.1.4789 type vxlan mtu 1450 mac c6:00:00:00:00:01 up was flannel.1 " +
				"id 1 dev eth0 local 192.168.64.3 port 4789" +
				"\nreplace link flannel.1 type vxlan mtu 1450 mac c6:00:00:00:00:01 up was fl.1.8472 " +
				"id 1 dev eth0 local 192.168.64.3 port 8472"},
		"a previous device without a present one": {want: self, have: aside(self),
			ops: "\nreplace link flannel.1 type vxlan mtu 1450 mac c6:00:00:00:00:01 up was fl.1.8472 " +
				"id 1 dev eth0 local 192.168.64.3 port 8472"},
		"a name that is taken": {want: device4789 + aside(device), have: device + aside(device4789),
			ops: "\ndel " + aside(strings.TrimSpace(device4789)) + "\ndel " + strings.TrimSpace(device) +
				"\nadd " + aside(strings.TrimSpace(device)) + "\nadd " + strings.TrimSpace(device4789)},
		"a foreign device": {want: aside(device), have: strings.ReplaceAll(device, "flannel.1", "fl.1.9"),
			ops: "\nadd " + aside(strings.TrimSpace(device))},
		"a device that stays": {want: self, have: self},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Own: own(), Prune: true, Renamings: append(names, dataplane.Renaming{From: "fl.1.9", To: "fl.1.8472"})}
			o.Own.Links["fl.1.8472"] = true
			var ops strings.Builder
			for _, op := range Diff(parse(t, c.want), parse(t, c.have), o).Ops {
				ops.WriteString("\n" + op.String())
			}
			if d := cmp.Diff(c.ops, ops.String()); d != "" {
				t.Errorf("plan (-want +got):\n%s", d)
			}
		})
	}
}

// TUN devices are all alike: what tells them apart is the port of the packet path that runs on them. Without one, a
// device keeps its name if it can.
func TestRenamesPaths(t *testing.T) {
	const (
		tun   = "link flannel0 type tun mtu 1472 up\n"
		path  = "proxy flannel0 local 192.168.64.3:8285 subnet 10.5.1.0/24 mtu 1472 offload auto\n"
		peers = "peer 10.5.3.0/24 to 192.168.64.4 dev flannel0\nroute 10.5.3.0/24 dev flannel0\n"
	)
	named := func(text, name string) string { return strings.ReplaceAll(text, "flannel0", name) }
	next := strings.ReplaceAll(path, ":8285", ":9000")
	line := func(verb, text string) string { return "\n" + verb + " " + strings.TrimSpace(text) }
	for name, c := range map[string]struct{ want, have, ops string }{
		"another port": {want: named(tun+path+peers, "fl.udp.8285") + tun + next, have: tun + path + peers,
			ops: "\nreplace link fl.udp.8285 type tun mtu 1472 up was flannel0" + line("add", tun) + line("replace", next)},
		"back": {want: named(tun+next, "fl.udp.9000") + tun + path + peers,
			have: named(tun+path+peers, "fl.udp.8285") + tun + next,
			ops: "\nreplace link fl.udp.9000 type tun mtu 1472 up was flannel0" +
				"\nreplace link flannel0 type tun mtu 1472 up was fl.udp.8285"},
		"after a restart": {want: named(tun+path, "fl.udp.8285") + tun + next, have: tun,
			ops: line("add", named(tun, "fl.udp.8285")) + line("replace", named(path, "fl.udp.8285")) + line("replace", next)},
		"the last one left": {want: tun + path, have: named(tun, "fl.udp.8285"),
			ops: "\nreplace link flannel0 type tun mtu 1472 up was fl.udp.8285" + line("replace", path)},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Own: own(), Prune: true, Renamings: []dataplane.Renaming{{From: "fl.udp.8285", To: "flannel0"},
				{From: "flannel0", To: "fl.udp.8285"}, {From: "flannel0", To: "fl.udp.9000"}}}
			for _, n := range o.Renamings {
				o.Own.Links[n.From], o.Own.Links[n.To] = true, true
			}
			var ops strings.Builder
			for _, op := range Diff(parse(t, c.want), parse(t, c.have), o).Ops {
				ops.WriteString("\n" + op.String())
			}
			if d := cmp.Diff(c.ops, ops.String()); d != "" {
				t.Errorf("plan (-want +got):\n%s", d)
			}
		})
	}
}

// A kernel that refuses to rename a device gets a new one.
func TestRefusedRenaming(t *testing.T) {
	o := Options{Own: own(), Prune: true, Renamings: []dataplane.Renaming{{From: "flannel.1", To: "fl.1.8472"}},
		Recreate: map[string]bool{"fl.1.8472": true}}
	plan := Diff(parse(t, device4789+aside(device)), parse(t, device), o)
	want := "del " + device + "add " + aside(device) + "add " + device4789
	if d := cmp.Diff(want, opsText(plan.Ops)); d != "" {
		t.Errorf("plan (-want +got):\n%s", d)
	}
}
