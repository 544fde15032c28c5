package cni

import (
	"encoding/json"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/flanneld/flannel/internal/files"
	"github.com/flanneld/flannel/internal/hostpaths"
)

// defaultBridge is the bridge of a delegate that names none.
const defaultBridge = "cni0"

// mostGateways bounds the addresses that are kept of a bridge.
const mostGateways = 16

// gateways tells which addresses of a bridge are those of subnets that the node had before.
type gateways struct {
	present  []netip.Prefix // the node's subnets
	networks []netip.Prefix // the cluster's
	made     []netip.Prefix // the addresses that the delegate has given to this bridge
	usual    bool           // it is the default bridge: plugins without a record have made addresses, too
}

// isFormer reports whether an address is the gateway, the first address, of a subnet other than the present ones,
// in one of their families, and not that of another program: this plugin has had it made, or it lies inside the
// networks, on the default bridge.
func (g gateways) isFormer(p netip.Prefix) bool {
	isGateway := p.Addr() == p.Masked().Addr().Next() && !p.Addr().IsLinkLocalUnicast()
	isPresent := func(own netip.Prefix) bool { return own.Masked() == p.Masked() }
	sameFamily := func(own netip.Prefix) bool { return own.Addr().Is4() == p.Addr().Is4() }
	isInside := func(n netip.Prefix) bool { return n.Contains(p.Addr()) && n.Bits() <= p.Bits() }
	return isGateway &&
		slices.ContainsFunc(g.present, sameFamily) &&
		!slices.ContainsFunc(g.present, isPresent) &&
		(slices.Contains(g.made, p) || g.usual && slices.ContainsFunc(g.networks, isInside))
}

// gatewaysOf returns what is known of a bridge.
func (c conf) gatewaysOf(bridge string, env subnetEnv) gateways {
	g := gateways{made: c.madeGateways()[bridge], usual: bridge == defaultBridge}
	for f, subnet := range env.subnets {
		if subnet.IsValid() {
			g.present = append(g.present, subnet)
		}
		g.networks = append(g.networks, env.networks[f]...)
	}
	return g
}

func (c conf) gatewaysPath() string {
	return filepath.Join(c.DataDir, networkDir(c.Name), hostpaths.CNIGateways)
}

// madeGateways returns the addresses that the network's delegate has given to bridges, by bridge. Without a file that
// can be read there are none.
func (c conf) madeGateways() map[string][]netip.Prefix {
	made := map[string][]netip.Prefix{}
	if text, err := files.ReadRegular(c.gatewaysPath(), files.MostOwn); err == nil && json.Unmarshal(text, &made) != nil {
		return map[string][]netip.Prefix{}
	}
	return made
}

// noteGateways notes the addresses that the delegate has given to a bridge for the node's subnets.
func (c conf) noteGateways(bridge string, env subnetEnv) error {
	made := c.madeGateways()
	before := made[bridge]
	for _, subnet := range env.subnets {
		if gateway := netip.PrefixFrom(subnet.Masked().Addr().Next(), subnet.Bits()); subnet.IsValid() &&
			!slices.Contains(made[bridge], gateway) {
			made[bridge] = append(made[bridge], gateway)
		}
	}
	if len(made[bridge]) == len(before) {
		return nil
	}
	made[bridge] = made[bridge][max(0, len(made[bridge])-mostGateways):]
	text, err := json.Marshal(made)
	if err != nil {
		return err
	}
	return files.Replace(c.gatewaysPath(), text, 0o600)
}
