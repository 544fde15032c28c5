package backends

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// object parses a Backend object, such as {"Type":"vxlan"}.
func object(text string) config.Backend {
	var head struct{ Type string }
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		panic(err) // the test's own text
	}
	return config.Backend{Type: head.Type, Options: json.RawMessage(text)}
}

// opened returns the set of a present Backend object and previous ones, in both families
// if dual.
func opened(t *testing.T, dual bool, present string, previous ...string) *Set {
	t.Helper()
	families := ""
	if dual {
		families = `"EnableIPv6":true,"IPv6Network":"fd00:10:5::/48",`
	}
	network, err := config.Parse([]byte(`{"Network":"10.5.0.0/16",` + families + `"Backend":` + present + `}`))
	if err != nil {
		t.Fatal(err)
	}
	var objects []config.Backend
	for _, f := range previous {
		objects = append(objects, object(f))
	}
	s, err := New(network, objects...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// environment is a host at 192.168.64.1 and fd00:64::1.
func environment(s *Set) backend.Env {
	v4, v6 := netip.MustParseAddr("192.168.64.1"), netip.MustParseAddr("fd00:64::1")
	return backend.Env{Config: s.network(), Uplink: uplink.Uplink{
		Link: "eth0", MTU: 1500, IP: v4, IPv6: v6, PublicIP: v4, PublicIPv6: v6,
	}}
}

// record returns a lease of a host by its number, with data for both families, and the
// backends that it names.
func record(host byte, backendType, data string, w lease.Ways) *lease.Lease {
	l := &lease.Lease{
		Key: lease.Key{
			V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, host, 0}), 24),
			V6: netip.MustParsePrefix(fmt.Sprintf("fd00:10:5:%x::/64", host)),
		},
		Attrs: lease.Attrs{
			PublicIP:   netip.AddrFrom4([4]byte{192, 168, 64, host}),
			PublicIPv6: netip.MustParseAddr(fmt.Sprintf("fd00:64::%x", host)), BackendType: backendType, Ways: w,
		},
		CreateRevision: int64(host),
	}
	if data != "" {
		l.Attrs.BackendData, l.Attrs.BackendV6Data = json.RawMessage(data), json.RawMessage(data)
	}
	return l
}

// vtep is the data of a host's vxlan device.
func vtep(vni int, host byte) string {
	return fmt.Sprintf(`{"VNI":%d,"VtepMAC":"02:00:00:00:00:%02x"}`, vni, host)
}

// wgPort is the data of a WireGuard device with a port.
func wgPort(port int) string {
	return fmt.Sprintf(`{"PublicKey":"AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=","Port":%d}`, port)
}

// formerly names a previous backend without data.
func formerly(id string) lease.FormerWay { return lease.FormerWay{Backend: json.RawMessage(id)} }

// in returns the set with a role for some of its backends.
func (s *Set) in(r Role, ids ...string) *Set {
	roles := map[string]Role{}
	for _, id := range ids {
		roles[id] = r
	}
	return s.In(roles)
}

// ending returns the set in which some backends end.
func (s *Set) ending(ids ...string) *Set { return s.in(Role{Ending: true}, ids...) }

// text is the wire form of attributes.
func text(a lease.Attrs) string { return string(lease.EncodeAttrs(a)) }

// The identities of some backends.
const (
	vxlan     = `{"Type":"vxlan"}`
	vxlan7    = `{"Type":"vxlan","VNI":7}`
	port4789  = `{"Type":"vxlan","Port":4789}`
	hostGW    = `{"Type":"host-gw"}`
	udp       = `{"Type":"udp"}`
	wireguard = `{"Type":"wireguard"}`
	wgAuto    = `{"Type":"wireguard","Mode":"auto"}`
)
