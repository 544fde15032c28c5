package cni

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func TestIsFormer(t *testing.T) {
	g := gateways{
		present: prefixes("10.5.7.1/24"), networks: prefixes("10.5.0.0/16", "fd00:5::/48"),
		made: prefixes("10.6.3.1/24"), usual: true,
	}
	for text, want := range map[string]bool{
		"10.5.3.1/24":      true,  // the gateway of another subnet
		"10.6.3.1/24":      true,  // of a former network
		"10.6.4.1/24":      false, // another program's
		"172.17.0.1/16":    false, // Docker's
		"10.0.0.1/8":       false, // the network lies in it
		"10.5.7.1/24":      false, // the present one
		"10.5.7.9/24":      false,
		"10.5.3.9/24":      false, // no gateway: another program's
		"169.254.0.1/16":   false,
		"fd00:5:0:3::1/64": false, // a family that the node does not have
		"fe80::1/64":       false,
	} {
		if got := g.isFormer(netip.MustParsePrefix(text)); got != want {
			t.Errorf("%s is of a former subnet: %t, want %t", text, got, want)
		}
	}
	g.present = append(g.present, netip.MustParsePrefix("fd00:5:0:7::1/64"))
	if !g.isFormer(netip.MustParsePrefix("fd00:5:0:3::1/64")) {
		t.Error("the IPv6 gateway of a former subnet is not seen")
	}
	g.usual = false
	if g.isFormer(netip.MustParsePrefix("10.5.3.1/24")) || !g.isFormer(netip.MustParsePrefix("10.6.3.1/24")) {
		t.Error("on a bridge with a name of its own, only the addresses that this plugin has had made are of former subnets")
	}
}

// The plugin takes no address of another program off a bridge that its configuration names, and off any bridge those
// that its delegate has given to it, also those of another network.
func TestAddTakesOnlyOwnAddressesOff(t *testing.T) {
	for bridge, usual := range map[string]bool{"": true, "docker0": false} {
		b := newBench(t, both)
		if bridge != "" {
			b.conf["delegate"] = map[string]any{"bridge": bridge}
		}
		p := b.plugin()
		isOurs := func(texts ...string) (ours []bool) {
			p.Clear = func(_ string, isGiven func(netip.Prefix) bool) ([]netip.Prefix, error) {
				for _, a := range prefixes(texts...) {
					ours = append(ours, isGiven(a))
				}
				return nil, nil
			}
			b.must(b.call(p.add))
			return ours
		}
		expect := func(when, address string, want bool) {
			t.Helper()
			if got := isOurs(address); got[0] != want {
				t.Errorf("bridge %q, %s: %s is taken off: %t, want %t", bridge, when, address, got[0], want)
			}
		}
		expect("at first", "172.17.0.1/16", false)
		expect("at first", "10.5.3.1/24", usual)
		expect("at first", "10.5.72.1/24", false) // it is the present one
		text := strings.NewReplacer("10.5.0.0", "10.6.0.0", "10.5.72.1", "10.6.72.1").Replace(both)
		if err := os.WriteFile(filepath.Join(b.dir, "subnet.env"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		expect("after another network", "10.5.72.1/24", true)
		expect("after another network", "10.5.73.1/24", false)
		expect("after another network", "172.17.0.1/16", false)
		if err := os.WriteFile(filepath.Join(b.dir, "data", ".cbr0", ".gateways"), []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
		expect("without a record", "10.5.72.1/24", false)
	}
}
