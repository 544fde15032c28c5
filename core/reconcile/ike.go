package reconcile

import (
	"cmp"
	"net/netip"

	"github.com/flanneld/flannel/core/dataplane"
)

// IKE returns the plan that turns the observed keys, connections and tunnels of the IKE
// daemon into the desired ones. Own says which connections are ours: those between our
// networks. A daemon that does not run yet gets everything. A daemon that is not wanted
// ends last.
func IKE(want, have *dataplane.State, opts Options) Plan {
	d := differ{want: want, have: have, opts: opts}
	for _, name := range sortedKeys(want.IKE, cmp.Compare[string]) {
		if _, runs := have.IKE[name]; !runs {
			d.add(dataplane.Create, want.IKE[name])
		}
	}
	for _, name := range sortedKeys(have.IKE, cmp.Compare[string]) {
		if _, wanted := want.IKE[name]; !wanted {
			d.remove(have.IKE[name], "")
		}
	}
	d.sharedKeys()
	if len(want.IKE) == 0 {
		d.formerKeys() // nothing shows them any more once the daemon has ended
	}
	d.conns()
	return d.plan()
}

// FormerKeys returns the ops that remove keys which no packet uses. The plan has none of them: one that the kernel
// refuses, or whose key comes back, harms nothing.
func FormerKeys(want, have *dataplane.State, opts Options) []dataplane.Op {
	d := differ{want: want, have: have, opts: opts}
	d.formerKeys()
	return d.plan().Ops
}

func (d *differ) sharedKeys() {
	d.want.SharedKeys.Differences(&d.have.SharedKeys, func(want, have *dataplane.SharedKey) {
		if want != nil {
			d.add(dataplane.Replace, *want)
		} else {
			d.remove(*have, "") // drivers report only keys that flannel loaded
		}
	})
}

// formerKeys deletes the keys between hosts that no wanted connection joins, such as those of a peer that left while
// the node was away. This host or a peer is one of the two: keys of other hosts may be another program's. Packets use
// the rest until the IKE daemon has negotiated new ones.
func (d *differ) formerKeys() {
	if len(d.have.FormerKeys) == 0 {
		return
	}
	needed, hosts := map[dataplane.FormerKey]bool{}, map[netip.Addr]bool{d.opts.Own.Addr: true}
	for k := range d.want.Conns.All {
		needed[dataplane.FormerKey{From: k.Local, To: k.Remote}] = true
		needed[dataplane.FormerKey{From: k.Remote, To: k.Local}] = true
		hosts[k.Remote] = true
	}
	for _, k := range sortedKeys(d.have.FormerKeys, dataplane.FormerKey.Compare) {
		if !needed[k] && (hosts[k.From] || hosts[k.To]) {
			d.remove(k, "")
		}
	}
}

// conns also ends the tunnels whose connections are gone, such as those of a peer
// that left while the node was away.
func (d *differ) conns() {
	d.want.Conns.Differences(&d.have.Conns, func(want, have *dataplane.Conn) {
		if want != nil {
			d.add(dataplane.Replace, *want)
		} else if d.opts.Own.conn(have.ConnKey) {
			d.remove(*have, "")
		}
	})
	for k, t := range d.have.Tunnels.All {
		if !d.want.Conns.Has(k) && !d.have.Conns.Has(k) && d.opts.Own.conn(k) {
			d.remove(t, "")
		}
	}
}

func (o Ownership) conn(k dataplane.ConnKey) bool {
	return o.inNetworks(k.LocalNet) && o.inNetworks(k.RemoteNet)
}

// MissingTunnels returns the ops that establish tunnels for the connections that
// are as desired and have none.
func MissingTunnels(want, have *dataplane.State) []dataplane.Op {
	var ops []dataplane.Op
	for k, c := range want.Conns.All {
		if loaded, ok := have.Conns.Get(k); ok && loaded == c && !have.Tunnels.Has(k) {
			ops = append(ops, dataplane.Op{Verb: dataplane.Create, Object: dataplane.Tunnel{ConnKey: k}})
		}
	}
	return ops
}
