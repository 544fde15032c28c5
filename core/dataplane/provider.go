package dataplane

import (
	"net/netip"
	"slices"
)

// Provider says which cloud provider's route tables hold the route of a node's subnet
// (interop 6.9). It holds credentials, which print as "(secret)".
type Provider struct {
	Name   string     // the type of the backend; "": the node has no route in a table
	Tables []string   // ids of the tables; nil: those that the provider uses for the instance
	Addr   netip.Addr // of the interface that is the next hop
	Public netip.Addr // the node's public address, by which some providers name the next hop

	// Credentials; empty: those of the environment or of the instance.
	KeyID, KeySecret Passphrase

	// Sweeps means that nodes remove the routes inside their networks whose next hop is
	// gone, also those that other programs made.
	Sweeps bool
}

// Equal reports whether all fields are the same.
func (p Provider) Equal(o Provider) bool {
	return p.Name == o.Name && slices.Equal(p.Tables, o.Tables) && p.Addr == o.Addr && p.Public == o.Public &&
		p.KeyID == o.KeyID && p.KeySecret == o.KeySecret && p.Sweeps == o.Sweeps
}
