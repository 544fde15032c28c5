package backend_test

import (
	"testing"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/config"
)

// Of several members of a Backend object with one name, the last one counts. A null counts as absent.
func TestLastMemberCounts(t *testing.T) {
	network, err := config.Parse([]byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan",` +
		`"VNI":7,"vni":8,"VNI":null,"Port":9000,"Port":4789}}`))
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := all.Find("vxlan")
	id, err := spec.Identity(network.Backend, backend.IPv4Only)
	if want := `{"Type":"vxlan","VNI":8,"Port":4789}`; err != nil || id != want {
		t.Errorf("identity %s (%v), want %s", id, err, want)
	}
	if ports := spec.Ports(network); len(ports) != 1 || ports[0].Number != 4789 {
		t.Errorf("ports %v, want 4789", ports)
	}
}
