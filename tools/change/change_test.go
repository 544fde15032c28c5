package change_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/tools/change"
	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/output/outputtest"
)

// snapshot returns what a datastore holds: a config, and records by their subnets.
func snapshot(t *testing.T, config string, records ...[2]string) *lease.Snapshot {
	t.Helper()
	snap := &lease.Snapshot{Config: lease.Document{Data: []byte(config), Revision: 1}}
	for _, r := range records {
		key, err := lease.ParseKey(r[0])
		if err != nil {
			t.Fatal(err)
		}
		attrs, err := lease.DecodeAttrs([]byte(r[1]))
		if err != nil {
			t.Fatal(err)
		}
		snap.Leases = append(snap.Leases, &lease.Lease{Key: key, Attrs: attrs})
	}
	return snap
}

const (
	oldRecord = `{"PublicIP":"192.168.64.1","PublicIPv6":null,"BackendType":"vxlan",` +
		`"BackendData":{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}}`
	newRecord = `{"PublicIP":"192.168.64.2","PublicIPv6":null,"BackendType":"host-gw","BackendWays":{"Former":[` +
		`{"Backend":{"Type":"vxlan"},"BackendData":{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:45"}}]}}`
)

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name, config string
		records      [][2]string
		done         bool
		want         string
	}{
		{"in the middle", `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"},"Formerly":[{"Type":"vxlan","MTU":1400}]}`,
			[][2]string{{"10.5.1.0-24", oldRecord}, {"10.5.2.0-24", newRecord}}, false,
			"backend:    {\"Type\":\"host-gw\"}\nformerly:   {\"Type\":\"vxlan\"}\nfollowed:   1 of 2 nodes\n" +
				"waits for:  10.5.1.0-24 of 192.168.64.1 offers {\"Type\":\"vxlan\"}\n"},
		{"all have followed", `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"},"Formerly":[]}`,
			[][2]string{{"10.5.2.0-24", newRecord}}, true,
			"backend:   {\"Type\":\"host-gw\"}\nformerly:  none: the nodes give up the previous backends\n" +
				"followed:  1 of 1 nodes\n"},
		{"another VNI", `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","VNI":2}}`,
			[][2]string{{"10.5.1.0-24", oldRecord}}, false,
			"backend:    {\"Type\":\"vxlan\",\"VNI\":2}\n" +
				"formerly:   not in the config: each node keeps its own previous backend for a while\n" +
				"followed:   0 of 1 nodes\nwaits for:  10.5.1.0-24 of 192.168.64.1 offers {\"Type\":\"vxlan\"}\n"},
	} {
		r, err := change.Of(snapshot(t, c.config, c.records...), false)
		if err != nil {
			t.Fatal(err)
		}
		if r.Done() != c.done || r.Trouble() == c.done {
			t.Errorf("%s: done %v, want %v", c.name, r.Done(), c.done)
		}
		if diff := cmp.Diff(c.want, outputtest.Print(t, output.Printer{}, r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
