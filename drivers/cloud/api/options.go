package api

import (
	"net/http"
	"net/netip"
)

// NoKeys is the advice of ali-vpc and tencent-vpc without credentials (interop 1.3).
const NoKeys = "the backend needs AccessKeyID and AccessKeySecret in its config, " +
	"or ACCESS_KEY_ID and ACCESS_KEY_SECRET in the environment"

// Options are the facts that a client gets from the network config, the
// environment and the host. The others are for tests.
type Options struct {
	Uplink   netip.Addr // address of the external interface: aws finds the network interface by it
	PublicIP netip.Addr // of the lease: tencent names the next hop by it

	RouteTableIDs   []string // aws: these instead of the table of the subnet
	AccessKeyID     string
	AccessKeySecret string
	SecurityToken   string // of temporary credentials, aws only
	CredentialsFile string // gce: a file with credentials instead of the instance's account

	Metadata  string            // base URL of the metadata service, for tests
	Endpoint  string            // base URL of the API, for tests
	Transport http.RoundTripper // for tests
}

// Tables returns the configured ids without repetitions, in their order.
func (o Options) Tables() []string {
	var ids []string
	seen := map[string]bool{}
	for _, id := range o.RouteTableIDs {
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}
