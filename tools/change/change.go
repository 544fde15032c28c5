package change

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/backend/backends"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/netconfig"
	"github.com/flanneld/flannel/tools/output"
)

// Report is the state of a change of the backend.
type Report struct {
	Backend string `json:"Backend"` // that of the config, such as {"Type":"host-gw"}
	// Formerly are the previous backends that the config names; null: it has no such member, so each node keeps its own
	// previous backend for a while.
	Formerly []string `json:"Formerly"`
	Nodes    []Node   `json:"Nodes"`
	Followed int      `json:"Followed"` // how many nodes offer the backend of the config
	Ended    string   `json:"Ended,omitempty"`
}

// Node is how far a node is.
type Node struct {
	Subnet   string   `json:"Subnet"`
	Owner    string   `json:"Owner"`  // its public addresses
	Offers   []string `json:"Offers"` // the backends by which it receives, newest first
	Followed bool     `json:"Followed"`
}

// Of returns the state of the change that a datastore shows. Assigned means that the datastore assigns the subnets, as
// Kubernetes does.
func Of(snap *lease.Snapshot, assigned bool) (*Report, error) {
	network, _, err := node.CheckConfig(snap.Config.Data, assigned)
	if err != nil {
		return nil, err
	}
	r := &Report{Backend: identity(network, network.Backend), Nodes: []Node{}}
	if network.Formerly != nil {
		r.Formerly = []string{}
	}
	for _, b := range network.Formerly {
		r.Formerly = append(r.Formerly, identity(network, b))
	}
	spec, _ := all.Find(network.Backend.Type)
	for _, l := range snap.Leases {
		n := Node{Subnet: l.Key.String(), Owner: netconfig.OwnerOf(l.Attrs), Offers: []string{}}
		for _, b := range backends.Named(&l.Attrs) {
			n.Offers = append(n.Offers, identity(network, b))
		}
		untyped := spec.Untyped && l.Attrs.Ways.IsEmpty() && l.Attrs.BackendType == ""
		n.Followed = untyped || slices.Contains(n.Offers, r.Backend)
		if n.Followed {
			r.Followed++
		}
		r.Nodes = append(r.Nodes, n)
	}
	return r, nil
}

// identity returns what nodes have to agree on about a backend, as JSON without secrets.
func identity(network config.Network, b config.Backend) string {
	spec, _ := all.Find(b.Type)
	id, err := spec.Identity(b, backend.FamiliesOf(network))
	if err != nil {
		return fmt.Sprintf(`{"Type":%q}`, b.Type)
	}
	return id
}

// Done reports whether all nodes have followed.
func (r *Report) Done() bool { return r.Followed == len(r.Nodes) }

// Waiting returns the subnets and owners of the nodes that have not followed.
func (r *Report) Waiting() []string {
	var nodes []string
	for _, n := range r.Nodes {
		if !n.Followed {
			nodes = append(nodes, fmt.Sprintf("%s (%s)", n.Subnet, n.Owner))
		}
	}
	return nodes
}

// Trouble reports whether nodes have not followed.
func (r *Report) Trouble() bool { return !r.Done() }

// Text prints the report for people.
func (r *Report) Text(p *output.Page) {
	formerly := strings.Join(r.Formerly, ", ")
	switch {
	case r.Formerly == nil:
		formerly = "not in the config: each node keeps its own previous backend for a while"
	case len(r.Formerly) == 0:
		formerly = "none: the nodes give up the previous backends"
	}
	rows := [][]output.Cell{output.Row("backend:", r.Backend), output.Row("formerly:", formerly)}
	followed := fmt.Sprintf("%d of %d nodes", r.Followed, len(r.Nodes))
	if r.Done() {
		rows = append(rows, []output.Cell{output.Plain("followed:"), output.Good(followed)})
	} else {
		rows = append(rows, []output.Cell{output.Plain("followed:"), output.Warn(followed)})
	}
	for _, n := range r.Nodes {
		if !n.Followed {
			text := fmt.Sprintf("%s of %s offers %s", n.Subnet, n.Owner, strings.Join(n.Offers, ", "))
			rows = append(rows, []output.Cell{output.Warn("waits for:"), output.Plain(text)})
		}
	}
	if r.Ended != "" {
		rows = append(rows, []output.Cell{output.Good("ended:"), output.Plain(r.Ended)})
	}
	p.Table(nil, rows...)
}
