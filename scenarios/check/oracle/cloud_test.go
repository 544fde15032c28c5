package oracle

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/dataplane"
)

// A host has the route of its subnet in each table, and no other of its own inside the Network (interop 6.9).
func TestCloudRoutes(t *testing.T) {
	const (
		main   = `{"Network":"10.5.0.0/16","Backend":{"Type":"tencent-vpc"}}`
		one    = `{"Network":"10.5.0.0/16","Backend":{"Type":"aws-vpc","RouteTableID":"b"}}`
		two    = `{"Network":"10.5.0.0/16","Backend":{"Type":"aws-vpc","RouteTableID":["a","b"]}}`
		others = `cloud-route 0.0.0.0/0 table "b" to "me" self` + "\n" + `cloud-route 10.5.2.0/24 table "b" to "n2"` + "\n"
		dead   = `cloud-route 10.5.3.0/24 table "b" to "n3" broken` + "\n"
	)
	for _, c := range []struct {
		config, have string
		want         []string
	}{
		{main, `cloud-route 10.5.1.0/24 table "main" to "me" self`, nil},
		{main, dead, []string{`missing cloud-route 10.5.1.0/24 table "main" self`}},
		{one, others + `cloud-route 10.5.1.0/24 table "b" to "me" self`, nil},
		{one, others + dead + `cloud-route 10.5.1.0/24 table "b" to "me" self`,
			[]string{`left over cloud-route 10.5.3.0/24 table "b" broken`}},
		{two, others + `cloud-route 10.5.1.0/24 table "a" to "n2"`, []string{
			`missing cloud-route 10.5.1.0/24 table "b" self`,
			`wrong cloud-route 10.5.1.0/24 table "a", want cloud-route 10.5.1.0/24 table "a" self`,
		}},
		{one, `cloud-route 10.5.1.0/24 table "b" to "me" self` + "\n" + `cloud-route 10.5.9.0/24 table "b" to "me" self`,
			[]string{`left over cloud-route 10.5.9.0/24 table "b" self`}},
	} {
		h := host(c.config)
		h.Blackhole = false
		h.Masquerade, h.Forward = false, false
		own := record(t, 1, "10.5.1.0-24", `{"PublicIP":"192.168.64.1","PublicIPv6":null}`)
		d := demanded(t, h, own)
		have, err := dataplane.ParseDump(c.have)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, d.Short(have, dataplane.NewState())); diff != "" {
			t.Errorf("%s\n%s\n(-want +got):\n%s", c.config, c.have, diff)
		}
		if d.Extent().Provider.Name == "" {
			t.Error("the oracle does not ask for the tables")
		}
	}
}
