package labworld

import (
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/config"
)

func TestLeaveRoom(t *testing.T) {
	const text = `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10:5::/48",` +
		`"Backend":{"Type":"vxlan","VNI":7}}`
	n, err := config.Parse([]byte(leaveRoom(text)))
	if err != nil {
		t.Fatal(err)
	}
	first, last := netip.MustParseAddr("10.5.1.0"), netip.MustParseAddr("10.5.190.0")
	if r := n.V4; r.Min != first || r.Max != last {
		t.Errorf("nodes lease %s to %s, want %s to %s", r.Min, r.Max, first, last)
	}
	if want := `{"Type":"vxlan","VNI":7}`; string(n.Backend.Options) != want {
		t.Errorf("backend %s, want %s", n.Backend.Options, want)
	}
	for _, other := range []string{`{"Network":"10.6.0.0/16"}`, `{"Network":"10.5.0.0/16","SubnetLen":26}`, `{`} {
		if got := leaveRoom(other); got != other {
			t.Errorf("%s became %s", other, got)
		}
	}
}
