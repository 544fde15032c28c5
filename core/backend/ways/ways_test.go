package ways

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// One record alone opens no way on another node; a peer and a record that names its way do.
func TestMissing(t *testing.T) {
	network, err := config.Parse([]byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(network)
	if err != nil {
		t.Fatal(err)
	}
	former := lease.Ways{Former: []lease.FormerWay{{Backend: json.RawMessage(`{"Type":"vxlan","VNI":7}`)}}}
	peer := func(subnet, kind string, w lease.Ways) *lease.Lease {
		return &lease.Lease{
			Key: lease.Key{V4: netip.MustParsePrefix(subnet)},
			Attrs: lease.Attrs{PublicIP: netip.MustParseAddr("192.168.64.9"), BackendType: kind,
				BackendData: json.RawMessage(`{"VNI":7}`), Ways: w},
		}
	}
	inTheMiddle := peer("10.5.2.0/24", "host-gw", former)
	behind := peer("10.5.3.0/24", "vxlan", lease.Ways{Present: json.RawMessage(`{"Type":"vxlan","VNI":7}`)})
	for _, c := range []struct {
		peers []*lease.Lease
		want  int
	}{{[]*lease.Lease{inTheMiddle}, 0}, {[]*lease.Lease{behind}, 0}, {[]*lease.Lease{inTheMiddle, behind}, 1}} {
		if got := s.Missing(c.peers); len(got) != c.want {
			t.Errorf("%d peers: %v, want %d ways", len(c.peers), got, c.want)
		}
	}
}
