package planted

import "github.com/flanneld/flannel/core/dataplane"

// wgPeers returns a defect of the peers of WireGuard devices: change returns what
// the daemon writes instead of a wanted peer. First is the peer as it was written
// first. The daemon believes that it has written the wanted peer.
func wgPeers(change func(want, first dataplane.WGPeer) dataplane.WGPeer) func() *body {
	return func() *body {
		first := map[dataplane.WGPeerKey]dataplane.WGPeer{}
		believed := map[dataplane.WGPeerKey]dataplane.WGPeer{}
		return &body{
			observe: func(s *dataplane.State) *dataplane.State {
				for k, p := range believed {
					if s.WGPeers.Has(k) {
						s.AddWGPeer(p)
					}
				}
				return s
			},
			apply: func(op dataplane.Op) (dataplane.Op, bool) {
				want, ok := op.Object.(dataplane.WGPeer)
				if !ok || op.Verb == dataplane.Delete {
					return op, true
				}
				if _, known := first[want.Key()]; !known {
					first[want.Key()] = want
				}
				believed[want.Key()] = want
				op.Object = change(want, first[want.Key()])
				return op, true
			},
		}
	}
}

// The defects.
func oldEndpoint(want, first dataplane.WGPeer) dataplane.WGPeer {
	want.Endpoint = first.Endpoint
	return want
}

func oldAllowed(want, first dataplane.WGPeer) dataplane.WGPeer {
	want.Allowed = first.Allowed
	return want
}

func noPSK(want, _ dataplane.WGPeer) dataplane.WGPeer {
	want.PSK = ""
	return want
}

func noKeepalive(want, _ dataplane.WGPeer) dataplane.WGPeer {
	want.Keepalive = 0
	return want
}

// encrypted selects the peers of WireGuard devices.
func encrypted(o dataplane.Object) bool {
	_, is := o.(dataplane.WGPeer)
	return is
}
