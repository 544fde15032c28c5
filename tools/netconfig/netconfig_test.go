package netconfig

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/output/outputtest"
)

func TestCheck(t *testing.T) {
	record := func(key, ip string) *lease.Lease {
		k, err := lease.ParseKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return &lease.Lease{Key: k, Attrs: lease.Attrs{PublicIP: netip.MustParseAddr(ip)}}
	}
	vxlan := lease.Document{Data: []byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`), Revision: 3}
	leases := []*lease.Lease{record("10.5.1.0-24", "192.168.64.1"), record("10.5.200.0-24", "192.168.64.2")}
	for _, c := range []struct {
		name, config string
		assigned     bool
		snap         *lease.Snapshot
		want         string
	}{
		{"offline", `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","Colour":1}}`, false, nil,
			`backend:  vxlan
network:  10.5.0.0/16, 255 subnets of /24 from 10.5.1.0 to 10.5.255.0
warning:  network config: Backend member "Colour" is unknown to vxlan and ignored
`},
		{"two families, nothing chosen", `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48",` +
			`"Backend":{"Type":"host-gw"}}`, false, nil,
			`backend:  host-gw
network:  10.5.0.0/16, 255 subnets of /24 from 10.5.1.0 to 10.5.255.0
network:  fd00:10::/48, 65535 subnets of /64 from fd00:10:0:1:: to fd00:10:0:ffff::
`},
		{"assigned", `{"Network":"10.5.0.0/16"}`, true, &lease.Snapshot{Leases: leases, Config: vxlan},
			`backend:  udp
network:  10.5.0.0/16
changes:  backend: vxlan becomes udp
`},
		{"malformed", `{`, false, nil,
			"error:  network config: malformed JSON at byte 1: unexpected end of JSON input\n"},
		{"another range", `{"Network":"10.5.0.0/16","SubnetMax":"10.5.100.0","Backend":{"Type":"vxlan","VNI":2}}`, false,
			&lease.Snapshot{Leases: leases, Config: vxlan},
			`backend:  vxlan
network:  10.5.0.0/16, 100 subnets of /24 from 10.5.1.0 to 10.5.100.0
changes:  IPv4 network: 10.5.0.0/16 in subnets of /24 from 10.5.1.0 to 10.5.255.0 becomes ` +
				`10.5.0.0/16 in subnets of /24 from 10.5.1.0 to 10.5.100.0
changes:  other options of the backend
moves:    192.168.64.2 has to take another subnet: subnet 10.5.200.0-24: 10.5.200.0/24 is outside 10.5.1.0 to 10.5.100.0
`},
		{"the end of a change", `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"},"Formerly":[]}`, false,
			&lease.Snapshot{Config: vxlan}, `backend:  vxlan
network:  10.5.0.0/16, 255 subnets of /24 from 10.5.1.0 to 10.5.255.0
changes:  Formerly: not given becomes []
`},
		{"the same in other words", `{ "Network": "10.5.0.0/16", "Backend": { "Type": "vxlan" } }`, false,
			&lease.Snapshot{Config: vxlan}, `backend:  vxlan
network:  10.5.0.0/16, 255 subnets of /24 from 10.5.1.0 to 10.5.255.0
`},
		{"the first", string(vxlan.Data), false, &lease.Snapshot{}, `backend:  vxlan
network:  10.5.0.0/16, 255 subnets of /24 from 10.5.1.0 to 10.5.255.0
changes:  there is no network config in force
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := outputtest.Print(t, output.Printer{}, Check([]byte(c.config), c.assigned, c.snap))
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
