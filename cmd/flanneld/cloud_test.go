package main

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/cloud/api"
	"github.com/flanneld/flannel/drivers/cloud/clients"
)

// Each backend with a lane for a provider's tables has a client, and no other one has.
func TestCloudClients(t *testing.T) {
	var types []string
	for _, spec := range all.Specs() {
		if slices.Contains(spec.Lanes, "cloud") {
			types = append(types, spec.Type)
		}
	}
	slices.Sort(types)
	if diff := cmp.Diff(clients.Types(), types); diff != "" {
		t.Errorf("backends (-with a client +with the lane):\n%s", diff)
	}
}

// The client gets what the node knows of itself and of the config, and the access key of the
// config or else that of the environment (interop 1.3).
func TestCloudOptions(t *testing.T) {
	o := &options{getenv: func(name string) string {
		return map[string]string{"ACCESS_KEY_ID": "env-id", "ACCESS_KEY_SECRET": "env-secret"}[name]
	}}
	p := dataplane.Provider{
		Name: "tencent-vpc", Tables: []string{"rtb-1"},
		Addr: netip.MustParseAddr("10.0.0.4"), Public: netip.MustParseAddr("203.0.113.4"),
	}
	want := api.Options{
		Uplink: p.Addr, PublicIP: p.Public, RouteTableIDs: p.Tables, AccessKeyID: "env-id", AccessKeySecret: "env-secret",
	}
	same := cmpopts.EquateComparable(netip.Addr{})
	if diff := cmp.Diff(want, o.cloudOptions(p), same); diff != "" {
		t.Errorf("without a key in the config (-want +got):\n%s", diff)
	}
	p.KeyID, p.KeySecret = dataplane.NewPassphrase("id"), dataplane.NewPassphrase("secret")
	want.AccessKeyID, want.AccessKeySecret = "id", "secret"
	if diff := cmp.Diff(want, o.cloudOptions(p), same); diff != "" {
		t.Errorf("with a key in the config (-want +got):\n%s", diff)
	}
}
