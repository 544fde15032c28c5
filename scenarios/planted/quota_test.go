package planted

import (
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/daemon"
)

// hoarding asks for the next subnet too when it has to renew its lease.
func hoarding(n daemon.Machine) daemon.Machine {
	return machine{n, nil, func(r node.Effects) node.Effects {
		if r.Request == nil || r.Request.Verb != node.Renew {
			return r
		}
		g := r.Request.Grant
		next := lease.Key{V4: netip.PrefixFrom(cidr.Last(g.Key.V4).Next(), g.Key.V4.Bits())}
		r.Request = &node.Request{Verb: node.Create, Key: next, Attrs: g.Attrs, TTL: g.TTL}
		return r
	}}
}
