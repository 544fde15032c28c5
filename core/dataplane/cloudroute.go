package dataplane

import (
	"cmp"
	"net/netip"
)

// CloudRouteKey identifies an entry of a cloud provider's route table. Some providers
// allow several entries with one destination, which have names.
type CloudRouteKey struct {
	Dst   netip.Prefix
	Table string // "" in a desired state: each table of the instance
	ID    string // the provider's name of the entry, if it has one; never desired
}

// Compare orders keys by destination, then by table and name.
func (k CloudRouteKey) Compare(o CloudRouteKey) int {
	return cmp.Or(comparePrefixes(k.Dst, o.Dst), cmp.Compare(k.Table, o.Table), cmp.Compare(k.ID, o.ID))
}

// Key returns the key.
func (k CloudRouteKey) Key() CloudRouteKey { return k }

// CloudRoute is an entry of a cloud provider's route table (interop 6.9). A desired one
// leads to the instance that the node runs on.
type CloudRoute struct {
	CloudRouteKey
	Target   string // the next hop, in the provider's own words; never desired
	Self     bool   // the next hop is this instance
	Provided bool   // the provider made it, and no program can change it
	Status   CloudStatus
}

// CloudStatus says whether an entry carries packets.
type CloudStatus string

// The statuses.
const (
	CloudActive  CloudStatus = ""
	CloudPending CloudStatus = "pending" // created, and not yet in force
	CloudBroken  CloudStatus = "broken"  // its next hop is gone, or it is disabled
)

// String returns the canonical form, such as
// `cloud-route 10.5.1.0/24 table "rtb-1" to "eni-7" self`.
func (r CloudRoute) String() string { return textOf(r.params(), "cloud-route %s", r.Dst) }

func (CloudRoute) kind() *kind { return &cloudRouteKind }

var cloudRouteKind = tableKind("cloud-route", parseCloudRoute,
	func(s *State) *Table[CloudRouteKey, CloudRoute] { return &s.CloudRoutes })

// parseCloudRoute reads the words of a route. Blanks count in the provider's words, so it
// splits the whole text again.
func parseCloudRoute(f *fields) Object {
	f.splitQuoted()
	r := CloudRoute{CloudRouteKey: CloudRouteKey{Dst: f.prefix()}}
	f.params(r.params())
	return r
}

// params lists the parameters in the order of the canonical form.
func (r *CloudRoute) params() []param {
	list := []param{
		quoted("table", &r.Table), quoted("id", &r.ID), quoted("to", &r.Target),
		{"self", r.Self, nil, func(*fields) { r.Self = true }},
		{"provided", r.Provided, nil, func(*fields) { r.Provided = true }},
	}
	for _, s := range []CloudStatus{CloudPending, CloudBroken} {
		list = append(list, param{string(s), r.Status == s, nil, func(*fields) { r.Status = s }})
	}
	return list
}
