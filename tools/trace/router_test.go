package trace

import (
	"testing"

	"github.com/flanneld/flannel/core/node"
)

// With a cloud provider's tables a packet leaves by the default route, to the router, which knows the node. Without
// such a way that is a packet on which flannel has lost its hold.
func TestWayByTheRouter(t *testing.T) {
	k := healthy(t)
	k.view.State.Links = nil
	k.routes["10.5.2.7"] = Route{Link: "eth0", Via: addr("192.168.64.254")}
	r, err := Walk(t.Context(), k, Flow{Src: addr("10.5.1.7"), Dst: addr("10.5.2.7"), Size: 84}, known)
	if err != nil || r.Reason != "no_route" {
		t.Errorf("without a way by the router: %+v, %v", r, err)
	}
	routed := known
	peer := known.Peers[0]
	peer.Ways = []node.Way{{Subnet: peer.Subnet.V4, Type: "router", Link: "eth0"}}
	routed.Peers = []node.Peer{peer}
	r, err = Walk(t.Context(), k, Flow{Src: addr("10.5.1.7"), Dst: addr("10.5.2.7"), Size: 84}, routed)
	if err != nil || r.Trouble() || r.Next != peer.PublicIP {
		t.Errorf("there: %+v, %v", r, err)
	}
	r, err = Walk(t.Context(), k, Flow{Src: addr("10.5.2.7"), Dst: addr("10.5.1.7"), Size: 84}, routed)
	if err != nil || !r.Arrived {
		t.Errorf("back: %+v, %v", r, err)
	}
}
