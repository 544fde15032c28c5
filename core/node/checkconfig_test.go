package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
