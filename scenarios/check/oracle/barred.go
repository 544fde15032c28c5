package oracle

import (
	"github.com/flanneld/flannel/core/dataplane"
)

// leaveOutBarred takes from what is demanded the peers that the kernel refuses: IPv6 accepts no gateway on a
// device if its own route to that gateway leads to another link. A bridge that still has the subnet which a peer
// has taken makes such a route. The node names the peer, and keeps nothing of it on the host.
func (d *Demand) leaveOutBarred(have *dataplane.State) {
	want := d.want
	for k, r := range d.want.Routes.All {
		if !r.OnLink || !r.Via.Is6() {
			continue
		}
		other, ok := lookUp(have, r.Via)
		if !ok || other.Link == r.Link || other.Protocol != dataplane.ProtocolKernel {
			continue
		}
		if want == d.want {
			want = d.want.Clone()
		}
		want.Routes.Delete(k)
		gateway := dataplane.NeighKey{Link: r.Link, IP: r.Via}
		if n, ok := want.Neighs.Get(gateway); ok {
			want.Neighs.Delete(gateway)
			want.FDB.Delete(dataplane.FDBKey{Link: n.Link, MAC: n.MAC})
		}
	}
	d.want = want
}
