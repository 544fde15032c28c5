package main

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
			topology: lang.Topology{Firewall: "none"},
			flags:    []string{"--iptables-forward-rules=false"},
		},
		"everything": {
			topology: lang.Topology{Firewall: "nftables", TTL: 10 * time.Minute, ExitOnLoss: true, Blackhole: true},
			flags: []string{
				"--ip-masq", "--subnet-lease-ttl=10m", "--on-lease-lost=exit", "--ip-blackhole-route",
			},
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

func compareOptions(t *testing.T, daemon, simulated node.Options) {
	t.Helper()
	d, s := reflect.ValueOf(daemon), reflect.ValueOf(simulated)
	for i := range d.NumField() {
		field := d.Type().Field(i).Name
		if mayDiffer[field] != "" {
			continue
		}
		if diff := cmp.Diff(d.Field(i).Interface(), s.Field(i).Interface()); diff != "" {
			t.Errorf("node.Options.%s (-daemon +simulated):\n%s", field, diff)
		}
	}
}
