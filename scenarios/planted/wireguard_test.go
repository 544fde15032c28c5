package planted

import (
	"fmt"

	"github.com/flanneld/flannel/core/dataplane"
)

// wgPeer is the key of peers of WireGuard devices.
func wgPeer(p dataplane.WGPeer) string { return fmt.Sprint(p.Key()) }

// encrypted selects the peers of WireGuard devices.
func encrypted(o dataplane.Object) bool {
	_, is := o.(dataplane.WGPeer)
	return is
}

// The defects.
func oldEndpoint(p *dataplane.WGPeer, first dataplane.WGPeer) { p.Endpoint = first.Endpoint }
func oldAllowed(p *dataplane.WGPeer, first dataplane.WGPeer)  { p.Allowed = first.Allowed }
func noPSK(p *dataplane.WGPeer, _ dataplane.WGPeer)           { p.PSK = "" }
func noKeepalive(p *dataplane.WGPeer, _ dataplane.WGPeer)     { p.Keepalive = 0 }
