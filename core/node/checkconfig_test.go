package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/lease"
)

// CheckConfig returns about a config what a node logs about it.
func TestCheckConfigAgreesWithTheLog(t *testing.T) {
	for _, text := range []string{
		vxlanConfig,
		``,
		`{`,
		`[]`,
		`{"Network":"10.5.0.0/33"}`,
		`{"Network":"10.5.0.0/16","SubnetLen":17}`,
		`{"Network":"10.5.0.0/16","SubnetMin":"10.6.0.0","Backend":{"Type":"vxlan"}}`,
		`{"Network":"10.5.0.0/16","Backend":{}}`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"quantum"}}`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","VNI":0}}`,
		`{"EnableIPv6":true,"IPv6Network":"fd00:10::/48","Network":"10.5.0.0/16","Backend":{"Type":"udp"}}`,
		`{"Network":"10.5.0.0/16","Nonsense":1,"Network":"10.6.0.0/16","Backend":{"Type":"vxlan","Colour":"red","vni":2}}`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"wireguard","PSK":"short"}}`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"},"Formerly":[{"Type":"host-gw"},{"Type":"quantum"}]}`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"},"Formerly":[{"Type":"vxlan","VNI":0}]}`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"},"Formerly":[{"Type":"host-gw"}]}`,
	} {
		w := newWorld(t, text)
		w.tell()
		w.pass(5 * time.Second)
		logged := append(w.logged("config-refused"), w.logged("config-warning")...)
		network, told, err := CheckConfig([]byte(text), false)
		if err != nil {
			told = []string{err.Error()}
		}
		if d := cmp.Diff(logged, told); d != "" {
			t.Errorf("%s (-log +CheckConfig):\n%s", text, d)
		}
		if (err == nil) != (w.count("config") == 1) || (err == nil) != network.V4.Enabled() {
			t.Errorf("%s: %v, %+v", text, err, network)
		}
	}
}

// The log says which options a config has, and what a changed one changes.
func TestConfigLineSaysWhatChanged(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	for i, text := range []string{
		`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","Port":4789}}`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","Port":4789},"SubnetLen":25}`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"},"SubnetLen":25,"EnableNFTables":true}`,
	} {
		w.snap.Config = lease.Document{Data: []byte(text), Revision: w.rev + int64(i) + 1}
		w.tell()
		w.pass(time.Second)
	}
	const wide, narrow = "IPv4 10.5.0.0/16 in subnets of /24 from 10.5.1.0 to 10.5.255.0",
		"IPv4 10.5.0.0/16 in subnets of /25 from 10.5.0.128 to 10.5.255.128"
	want := []string{
		"network config in force: backend vxlan, " + wide,
		"network config in force: backend vxlan with Port 4789, " + wide + "; changed: Port from 0 to 4789",
		"network config in force: backend vxlan with Port 4789, " + narrow + "; changed: the network, before: " + wide,
		"network config in force: backend host-gw, " + narrow + "; changed: the backend from vxlan to host-gw, " +
			"EnableNFTables from false to true",
	}
	if d := cmp.Diff(want, w.logged("config")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
