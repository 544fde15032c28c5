package alloc

import (
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// The backend publishes the public addresses, and makes nothing on the host.
func TestPublishesAndRendersNothing(t *testing.T) {
	env := backend.Env{Uplink: uplink.Uplink{Link: "eth0", MTU: 1400,
		PublicIP: netip.MustParseAddr("203.0.113.3"), PublicIPv6: netip.MustParseAddr("fd00:a::3")}}
	a, err := Backend{}.Attrs(env, lease.Attrs{}, dataplane.NewState(), nil)
	want := `{"PublicIP":"203.0.113.3","PublicIPv6":"fd00:a::3"}`
	if got := string(lease.EncodeAttrs(a)); got != want || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	state, problems := Backend{}.Render(env, backend.Self{Attrs: a}, []*lease.Lease{{}})
	if state.Len() != 0 || len(problems) != 0 || (Backend{}).MTU(env) != 1400 {
		t.Errorf("%s, problems %v", state.Dump(), problems)
	}
	if !Spec().IgnoresPeers {
		t.Error("the backend takes part in what peers need")
	}
}
