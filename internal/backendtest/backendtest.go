// Package backendtest helps the tests of the backends.
package backendtest

import (
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// Open makes a backend of the type B for a config, and its environment: the uplink
// eth0 with the address 192.168.64.3, and with fd00:a::3 if the config has IPv6.
// The node publishes both addresses.
func Open[B backend.Backend](t testing.TB, spec backend.Spec, conf string) (B, backend.Env) {
	t.Helper()
	network, err := config.Parse([]byte(conf))
	if err != nil {
		t.Fatal(err)
	}
	opened, err := spec.Open(network)
	if err != nil {
		t.Fatal(err)
	}
	v4, v6 := netip.MustParseAddr("192.168.64.3"), netip.MustParseAddr("fd00:a::3")
	up := uplink.Uplink{Link: "eth0", MTU: 1500, IP: v4, PublicIP: v4}
	if network.V6.Enabled() {
		up.IPv6, up.PublicIPv6 = v6, v6
	}
	return opened.(B), backend.Env{Config: network, Uplink: up}
}

// Record returns a lease of a key, with one public address or two.
func Record(t testing.TB, key, backendType string, public ...string) *lease.Lease {
	t.Helper()
	k, err := lease.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	l := &lease.Lease{Key: k, Attrs: lease.Attrs{BackendType: backendType}}
	for _, text := range public {
		a := netip.MustParseAddr(text)
		if a.Is4() {
			l.Attrs.PublicIP = a
		} else {
			l.Attrs.PublicIPv6 = a
		}
	}
	return l
}
