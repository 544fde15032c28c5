package oracle

import (
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
)

// clouds lists the types whose only object is an entry in a cloud provider's tables.
var clouds = []string{"gce", "aws-vpc", "ali-vpc", "tencent-vpc"}

// mainTable is the table of a simulated provider that configs use by default.
const mainTable = "main"

// cloud derives the route of the own subnet in each table (interop 6.9). Peers have no objects.
func (d *derivation) cloud() {
	if !slices.Contains(clouds, d.net.backend) {
		return
	}
	d.provider = d.net.backend
	tables := []string{mainTable}
	switch ids := d.net.options.RouteTableID.(type) {
	case string:
		tables = []string{ids}
	case []any:
		tables = nil
		for _, id := range ids {
			text, _ := id.(string)
			tables = append(tables, text)
		}
	}
	for _, table := range tables {
		if own := d.own.Key.V4; own.IsValid() {
			d.want.AddCloudRoute(dataplane.CloudRoute{
				CloudRouteKey: dataplane.CloudRouteKey{Dst: own, Table: table}, Self: true,
			})
		}
	}
}

// cloudRoutes compares the entries of a provider's tables. An entry inside the networks that
// leads to the host is flannel's. With aws-vpc no entry inside them leads nowhere.
func (d Demand) cloudRoutes(have *dataplane.State) []string {
	if d.provider == "" {
		return nil
	}
	entries := have.Clone()
	for _, r := range have.CloudRoutes.All {
		r.Target = ""
		entries.AddCloudRoute(r)
	}
	return compareTables(&d.want.CloudRoutes, &entries.CloudRoutes, func(r dataplane.CloudRoute) bool {
		ours := r.Self || r.Status == dataplane.CloudBroken && d.provider == "aws-vpc"
		return ours && !r.Provided && d.inNetworks(r.Dst)
	})
}
