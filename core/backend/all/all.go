package all

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/alloc"
	"github.com/flanneld/flannel/core/backend/hostgw"
	"github.com/flanneld/flannel/core/backend/udp"
	"github.com/flanneld/flannel/core/backend/vxlan"
	"github.com/flanneld/flannel/core/config"
)

// unavailable are the types of the contract that this build does not serve.
var unavailable = []string{"ipip", "wireguard", "ipsec", "extension", "gce", "aws-vpc", "ali-vpc", "tencent-vpc"}

// New returns the backend a network config asks for.
func New(network config.Network) (backend.Backend, error) {
	switch t := network.Backend.Type; {
	case t == vxlan.Type:
		return vxlan.New(network)
	case t == hostgw.Type:
		return hostgw.Backend{}, nil
	case t == udp.Type:
		return udp.New(network)
	case t == alloc.Type:
		return alloc.Backend{}, nil
	case slices.Contains(unavailable, t):
		return nil, fmt.Errorf("backend type %q is not available in this build; it serves vxlan, host-gw, udp and alloc", t)
	default:
		return nil, fmt.Errorf("unknown backend type %q; known are vxlan, host-gw, udp, alloc, %s", t, strings.Join(unavailable, ", "))
	}
}
