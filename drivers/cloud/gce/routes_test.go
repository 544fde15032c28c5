package gce

import (
	"encoding/json"
	"testing"

	"github.com/flanneld/flannel/drivers/cloud"
)

func TestEntries(t *testing.T) {
	const instance = `"nextHopInstance":"https://www.googleapis.com/compute/v1/projects/p/zones/z/instances/i"`
	me := &self{project: "p", zone: "z", name: "i", network: "n"}
	for _, c := range []struct {
		what, entry  string
		left         bool // out of the routes
		self, custom bool
		state        cloud.State
	}{
		{what: "own", entry: instance, self: true, custom: true, state: cloud.Active},
		{what: "static", entry: instance + `,"routeType":"STATIC","routeStatus":"ACTIVE"`, self: true, custom: true,
			state: cloud.Active},
		{what: "pending", entry: instance + `,"routeStatus":"PENDING"`, self: true, custom: true, state: cloud.Pending},
		{what: "dropped", entry: instance + `,"routeStatus":"DROPPED"`, self: true, custom: true, state: cloud.Broken},
		{what: "no forwarding", entry: instance + `,"warnings":[{"code":"NEXT_HOP_CANNOT_IP_FORWARD"}]`, self: true,
			custom: true, state: cloud.Broken},
		{what: "another warning", entry: instance + `,"warnings":[{"code":"DEPRECATED_RESOURCE_USED"}]`, self: true,
			custom: true, state: cloud.Active},
		{what: "zone of another", entry: `"nextHopInstance":"projects/p/zones/y/instances/i"`, custom: true,
			state: cloud.Active},
		{what: "name that begins alike", entry: `"nextHopInstance":"projects/p/zones/z/instances/i2"`, custom: true,
			state: cloud.Active},
		{what: "of a router", entry: `"nextHopIp":"10.0.0.1","routeType":"BGP"`, state: cloud.Active},
		{what: "of a subnet", entry: `"nextHopNetwork":"projects/p/global/networks/n"`, state: cloud.Active},
		{what: "of a peering", entry: `"nextHopPeering":"peering"`, state: cloud.Active},
		{what: "for tagged instances", entry: instance + `,"tags":["web"]`, left: true},
		{what: "another network", entry: instance + `,"network":"projects/p/global/networks/m"`, left: true},
		{what: "IPv6", entry: instance + `,"destRange":"2001:db8::/64"`, left: true},
		{what: "name for a path", entry: instance + `,"name":"../x"`, left: true},
	} {
		var e entry
		text := `{"name":"r","network":"https://www.googleapis.com/compute/v1/projects/p/global/networks/n",` +
			`"destRange":"10.40.3.0/24",` + c.entry + `}`
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		r, ok := e.route(me)
		if ok == c.left || ok && (r.Self != c.self || r.Custom != c.custom || r.State != c.state || r.Target == "") {
			t.Errorf("%s: %v, %+v", c.what, ok, r)
		}
	}
}
