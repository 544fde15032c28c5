package kernel

import (
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// IPRoute performs "ip route add|replace|del DST via GATEWAY": it names no
// device, and its routes carry the protocol boot.
func (h *Host) IPRoute(verb string, dst netip.Prefix, gateway netip.Addr) error {
	r := dataplane.Route{RouteKey: dataplane.RouteKey{Dst: dst}, Via: gateway, Protocol: dataplane.ProtocolBoot}
	var op dataplane.Op
	switch verb {
	case "add":
		op = dataplane.Op{Verb: dataplane.Create, Object: r}
	case "replace":
		op = dataplane.Op{Verb: dataplane.Replace, Object: r}
	case "del":
		have, exists := h.Route(r.RouteKey)
		if !exists || have.Via != gateway {
			return h.actionOf("command", driver.ErrNotFound, "delete %s", r)
		}
		op = dataplane.Op{Verb: dataplane.Delete, Object: have}
	default:
		return fmt.Errorf("ip route %s: %w", verb, driver.ErrInvalid)
	}
	return h.actionOf("command", h.stack.apply(op), "%s", op)
}
