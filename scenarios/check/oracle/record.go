package oracle

import (
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
)

// vTEPMAC is the MAC address of the VXLAN device in a record, or "".
func VTEPMAC(l lease.Lease, f cidr.Family) string {
	_, rest, ok := strings.Cut(string(l.Attrs.Data(f)), `"VtepMAC":"`)
	mac, _, closed := strings.Cut(rest, `"`)
	if !ok || !closed {
		return ""
	}
	return mac
}
