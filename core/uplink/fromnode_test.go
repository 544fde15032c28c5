package uplink

import (
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
)

// fromNode returns the options of --iface-from-node with the InternalIPs of a node.
func fromNode(v4, v6 string) Options {
	o := Options{FromNode: true, Node: "n1"}
	for f, text := range []string{cidr.V4: v4, cidr.V6: v6} {
		if text != "" {
			o.NodeIPs[f] = netip.MustParseAddr(text)
		}
	}
	return o
}

// with adds the options of other flags.
func with(o, flags Options) Options {
	o.Ifaces, o.PublicIP = flags.Ifaces, flags.PublicIP
	return o
}

func TestFromNode(t *testing.T) {
	for _, c := range []struct {
		name    string
		opts    Options
		network config.Network
		want    result
	}{
		{"node's address, IPv4", fromNode("10.9.0.3", ""), v4, result{"eth1", "10.9.0.3", "", "10.9.0.3", ""}},
		{"node's address, IPv6", fromNode("10.9.0.3", "fd00:6::3"), v6, result{"six", "", "fd00:6::3", "", "fd00:6::3"}},
		{"node's addresses, dual", fromNode("10.9.0.3", "fd00:3::3"), dual,
			result{"eth1", "10.9.0.3", "fd00:3::3", "10.9.0.3", "fd00:3::3"}},
		{"node's IPv4 address, dual", fromNode("172.16.0.3", ""), dual, eth1},
		{"a flag before the node's address", with(fromNode("10.9.0.3", ""), Options{Ifaces: []string{"eth0"}}), v4, eth0v4},
		{"a public address before the node's", with(fromNode("10.9.0.3", ""), Options{PublicIP: "192.168.1.4"}), v4,
			result{"eth0", "192.168.1.4", "", "192.168.1.4", ""}},
		{"node's address, and the flag is off", Options{NodeIPs: fromNode("10.9.0.3", "").NodeIPs}, v4, eth0v4},
	} {
		u, err := Select(c.opts, c.network, Host{Facts: facts()})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := result{u.Link, text(u.IP), text(u.IPv6), text(u.PublicIP), text(u.PublicIPv6)}
		if got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// The errors name the node and the address.
func TestFromNodeErrors(t *testing.T) {
	for _, c := range []struct {
		opts    Options
		network config.Network
		want    string
	}{
		{fromNode("192.168.1.99", ""), v4, "no interface has 192.168.1.99, the InternalIP of node n1: " +
			"set kubelet's --node-ip to an address of this host, or choose with --iface"},
		{fromNode("192.168.1.3", "fd00:2::3"), dual, "the InternalIPs of node n1 are on two interfaces, " +
			"eth0 and eth1 (fd00:2::3): choose with --iface"},
		{fromNode("", "fd00:2::3"), v4, "node n1 has no InternalIP in the families of the network yet: " +
			"kubelet's --node-ip or the cloud controller sets it; or choose with --iface"},
		{Options{FromNode: true}, v4, "this node, whose object could not be read, has no InternalIP in the families of " +
			"the network yet: kubelet's --node-ip or the cloud controller sets it; or choose with --iface"},
	} {
		want := "no usable interface: --iface-from-node: " + c.want
		if u, err := Select(c.opts, c.network, Host{Facts: facts()}); err == nil || err.Error() != want {
			t.Errorf("chose %+v, error %v\nwant %s", u, err, want)
		}
	}
}
