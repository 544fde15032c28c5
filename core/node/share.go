package node

import "github.com/flanneld/flannel/core/dataplane"

// shareTables makes a copy of the desired state that shares its tables with the observed one, which
// has been found as desired. The next desired state is a clone of that copy with few changes,
// and the next observed one a clone of this one, so only what has changed is compared. Foreign
// objects are few, or the tables stay as they are.
func (n *Node) shareTables() {
	h := &n.host
	if h.settled != (settled{h.want.state, h.have}) || h.shared == h.settled {
		return
	}
	h.shared = h.settled
	base := *h.want.state
	share(&base.Routes, &h.have.Routes)
	share(&base.NextHops, &h.have.NextHops)
	share(&base.Neighs, &h.have.Neighs)
	share(&base.FDB, &h.have.FDB)
	h.want.base = &base
}

func share[K dataplane.Key[K], V dataplane.Row[K]](want, have *dataplane.Table[K, V]) {
	shared, ok := want.SharedWith(have, fewObjects)
	if ok {
		*want = shared
	}
}
