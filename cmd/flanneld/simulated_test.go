package main

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/scenarios/lang"
	"github.com/flanneld/flannel/scenarios/simworld"
)

// mayDiffer names the options in which a simulated node may differ from the
// daemon's, and why. Every other option is equal, a new one included.
var mayDiffer = map[string]string{
	"Rand":     "chance: a simulation repeats with its seed",
	"Previous": "read from the subnet file, which drivers/sim keeps in memory",
	"Saved":    "read from the state file, which drivers/sim keeps in memory",

	"ProbeInterval": "the search simulates years: its nodes probe only if a topology asks for it",
}

// The flags of the two cases: as few options as possible, and all that a topology has.
var (
	least      = []string{"--iptables-forward-rules=false", "--next-hop-objects=0"}
	everything = []string{
		"--ip-masq", "--subnet-lease-ttl=10m", "--on-lease-lost=exit", "--ip-blackhole-route", "--ip-forward",
		"--next-hop-objects=3", "--allow-extension",
	}
)

// onlyFlags names the options that only flags of the daemon set: every simulated node
// has the value of a daemon without the flag.
var onlyFlags = map[string]string{
	"Uplink.Ifaces":     "simulated hosts have one uplink, except behind NAT: scenarios/simworld sets it there",
	"Uplink.Regexes":    "the same",
	"Uplink.CanReach":   "the same",
	"Uplink.PublicIP":   "the same",
	"Uplink.PublicIPv6": "the same",
	"Uplink.FromNode":   "simulated node objects have no addresses; the tests of core/node hold it",
	"Uplink.Node":       "the same",
	"Uplink.NodeIPs":    "the same",
	"Firewall.Guards":   "no flag sets them: the node makes them while the backend changes",
	"Firewall.NoRandom": "one word of a rule, which the tests of core/firewall hold",
	"ProbeUnreadyAfter": "a period: without probes it means nothing; the tests of core/node hold it",
	"Rules":             "a period: scenarios run with the default",
	"RenewMargin":       "the same; the tests of core/node change it",
	"ChangeLimit":       "the same; the tests of core/node hold it",
	"Resync":            "the same; no flag sets it",
	"Debounce":          "the same; no flag sets it",
}

// TestSimulatedNodesAreTheDaemons compares, option by option, the nodes of the
// search and of the scenarios with the node that the daemon builds from the
// corresponding flags. Both go through node.New: nothing else makes a Node.
func TestSimulatedNodesAreTheDaemons(t *testing.T) {
	for name, c := range map[string]struct {
		topology lang.Topology
		flags    []string
	}{
		"the least": {
			topology: lang.Topology{Firewall: "none", NoExtension: true},
			flags:    least,
		},
		"everything": {
			topology: lang.Topology{
				Firewall: "nftables", TTL: 10 * time.Minute, ExitOnLoss: true, Blackhole: true, IPForward: true,
				NextHops: 3,
			},
			flags: everything,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, _, err := parse(c.flags...)
			if err != nil {
				t.Fatal(err)
			}
			compareOptions(t, o.nodeOptions().WithDefaults(), simworld.NodeOptions(c.topology).WithDefaults())
		})
	}
}

// TestEveryOptionIsCompared fails for an option that neither the cases above set nor a
// table explains. So one that a flag sets for the daemon alone is noticed.
func TestEveryOptionIsCompared(t *testing.T) {
	few, many := optionsOf(t, least), optionsOf(t, everything)
	for path, value := range few {
		_, explained := onlyFlags[path]
		compared := cmp.Diff(value, many[path], byValue) != ""
		if compared == explained {
			t.Errorf("node.Options.%s: compared %t, in the table onlyFlags %t", path, compared, explained)
		}
	}
	for path := range onlyFlags {
		if _, ok := few[path]; !ok {
			t.Errorf("the table onlyFlags has %s, which is no option", path)
		}
	}
}

// optionsOf returns the options that the daemon makes of flags, by path.
func optionsOf(t *testing.T, flags []string) map[string]any {
	t.Helper()
	o, _, err := parse(flags...)
	if err != nil {
		t.Fatal(err)
	}
	return leaves(o.nodeOptions().WithDefaults())
}

// leaves returns the options of a struct by path, without those that may differ.
func leaves(options any) map[string]any {
	found := map[string]any{}
	v := reflect.ValueOf(options)
	for i := range v.NumField() {
		name, value := v.Type().Field(i).Name, v.Field(i)
		if mayDiffer[name] != "" {
			continue
		}
		if value.Kind() != reflect.Struct {
			found[name] = value.Interface()
			continue
		}
		for path, inner := range leaves(value.Interface()) {
			found[name+"."+path] = inner
		}
	}
	return found
}

var byValue = cmpopts.EquateComparable(netip.Addr{})

func compareOptions(t *testing.T, daemon, simulated node.Options) {
	t.Helper()
	d, s := reflect.ValueOf(daemon), reflect.ValueOf(simulated)
	for i := range d.NumField() {
		field := d.Type().Field(i).Name
		if mayDiffer[field] != "" {
			continue
		}
		if diff := cmp.Diff(d.Field(i).Interface(), s.Field(i).Interface(), byValue); diff != "" {
			t.Errorf("node.Options.%s (-daemon +simulated):\n%s", field, diff)
		}
	}
}
