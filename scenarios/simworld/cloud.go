package simworld

import (
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/drivers/sim/cloud"
	"github.com/flanneld/flannel/scenarios/lang"
)

var _ lang.Cloud = (*World)(nil)

// addCloud makes every host an instance of a provider. The tables are those that the config
// names, if it names some.
func (w *World) addCloud() {
	var own []netip.Prefix
	for i := range w.top.Segments {
		own = append(own, lang.UnderlayAddr(cidr.V4, i, 0).Masked())
	}
	w.cloud = cloud.New(w.network, w.router, own...)
	network, err := config.Parse([]byte(w.top.Config))
	if err != nil {
		return
	}
	if b, err := all.New(network); err == nil && b.Extent().Provider.Tables != nil {
		w.cloud.UseTables(b.Extent().Provider.Tables...)
	}
}

// DisturbCloud implements [lang.Cloud].
func (w *World) DisturbCloud(f lang.CloudFaults) error {
	w.cloud.SetFaults(cloud.Faults(f))
	return nil
}

// CloudFaults implements [lang.Cloud].
func (w *World) CloudFaults() lang.CloudFaults { return lang.CloudFaults(w.cloud.Faults()) }

// PutCloudRoute implements [lang.Cloud].
func (w *World) PutCloudRoute(dst netip.Prefix, target string) error {
	w.cloud.Put(dst, target)
	return nil
}

// RemoveCloudRoute implements [lang.Cloud].
func (w *World) RemoveCloudRoute(dst netip.Prefix) error {
	w.cloud.Remove(dst)
	return nil
}

// EndInstance implements [lang.Cloud].
func (w *World) EndInstance(node string, on bool) error {
	if w.nodes[node] == nil {
		return fmt.Errorf("no node %q", node)
	}
	w.cloud.EndInstance(node, on)
	return nil
}
