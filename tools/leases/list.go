package leases

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/netconfig"
	"github.com/flanneld/flannel/tools/output"
)

// State is the use of a subnet.
type State string

// The states of a subnet.
const (
	Free        State = "free"
	Leased      State = "leased"
	Reserved    State = "reserved"    // it never expires
	Assigned    State = "assigned"    // by Kubernetes
	Quarantined State = "quarantined" // its record does not decode
)

// Record is one subnet and its use.
type Record struct {
	Subnet   string `json:"Subnet"` // as the datastore spells it
	State    State  `json:"State"`
	Owner    string `json:"Owner,omitempty"` // its public addresses
	Backend  string `json:"Backend,omitempty"`
	Expires  string `json:"ExpiresIn,omitempty"` // the time left; only of a single record
	Problem  string `json:"Problem,omitempty"`
	Revision int64  `json:"Revision,omitempty"` // of the last change
}

// List holds all records.
type List struct {
	Records []Record `json:"Records"`
	Free    []Count  `json:"Free,omitempty"` // by family; none if Kubernetes assigns the subnets
	Problem string   `json:"Problem,omitempty"`
}

// Count tells how many subnets of a family are free.
type Count struct {
	Family string `json:"Family"`
	Free   string `json:"Free"`
	All    string `json:"All"`
}

// Of lists the records of a snapshot, sorted by their subnets. Kubernetes assigns
// subnets, so its records have a state of their own.
func Of(snap *lease.Snapshot, kubernetes bool) *List {
	l := &List{Records: []Record{}}
	network, _, err := node.CheckConfig(snap.Config.Data, kubernetes)
	if len(snap.Config.Data) == 0 {
		l.Problem = "there is no network config"
	} else if err != nil {
		l.Problem = err.Error()
	}
	for _, r := range snap.Leases {
		record := recordOf(*r, kubernetes)
		if err == nil {
			if misfit := netconfig.Fits(network, r.Key, kubernetes); misfit != nil {
				record.Problem = misfit.Error()
			}
		}
		l.Records = append(l.Records, record)
	}
	for _, q := range snap.Quarantined {
		l.Records = append(l.Records, Record{Subnet: q.Raw, State: Quarantined, Problem: q.Reason})
	}
	slices.SortStableFunc(l.Records, func(a, b Record) int {
		return cmp.Or(addrOf(a).Compare(addrOf(b)), strings.Compare(a.Subnet, b.Subnet))
	})
	if kubernetes || err != nil {
		return l
	}
	for _, f := range cidr.Families {
		if free, all := alloc.Count(network, snap, f); network.Of(f).Enabled() {
			l.Free = append(l.Free, Count{f.String(), free.String(), all.String()})
		}
	}
	return l
}

// addrOf returns the first address of a record's subnet, to sort by.
func addrOf(r Record) netip.Addr {
	key, err := lease.ParseKey(r.Subnet)
	if err != nil {
		return netip.Addr{}
	}
	if key.V4.IsValid() {
		return key.V4.Addr()
	}
	return key.V6.Addr()
}

func recordOf(l lease.Lease, kubernetes bool) Record {
	r := Record{
		Subnet: l.Key.String(), State: Leased, Owner: netconfig.OwnerOf(l.Attrs), Backend: l.Attrs.BackendType,
		Revision: l.ModRevision,
	}
	switch {
	case kubernetes:
		r.State = Assigned
	case l.Reserved():
		r.State = Reserved
	}
	return r
}

// Trouble reports whether a record does not decode or does not fit the config.
func (l *List) Trouble() bool {
	return l.Problem != "" || slices.ContainsFunc(l.Records, func(r Record) bool { return r.Problem != "" })
}

// Text prints a line for each record, and the numbers below.
func (l *List) Text(p *output.Page) {
	var rows [][]output.Cell
	count := map[State]int{}
	for _, r := range l.Records {
		rows = append(rows, []output.Cell{
			output.Plain(r.Subnet), r.state(), output.Plain(cmp.Or(r.Owner, "-")), output.Plain(cmp.Or(r.Backend, "-")),
			output.Warn(r.Problem),
		})
		count[r.State]++
	}
	if len(rows) > 0 {
		p.Table(output.Row("SUBNET", "STATE", "OWNER", "BACKEND", "PROBLEM"), rows...)
	}
	var parts []string
	for _, s := range []State{Leased, Assigned, Reserved, Quarantined} {
		if count[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[s], s))
		}
	}
	if len(parts) == 0 {
		parts = []string{"no records"}
	}
	for _, c := range l.Free {
		parts = append(parts, fmt.Sprintf("%s free of %s (%s)", c.Free, c.All, c.Family))
	}
	p.Linef("%s", strings.Join(parts, ", "))
	if l.Problem != "" {
		p.Line(output.Bad("problem: "), output.Plain(l.Problem))
	}
}

// state returns the state as a cell.
func (r Record) state() output.Cell {
	if r.State == Quarantined {
		return output.Bad(string(r.State))
	}
	return output.Plain(string(r.State))
}

// Trouble reports whether the record has a problem.
func (r *Record) Trouble() bool { return r.Problem != "" }

// Text prints the record, a line for each of its members.
func (r *Record) Text(p *output.Page) {
	rows := [][]output.Cell{output.Row("subnet:", r.Subnet), {output.Plain("state:"), r.state()}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, output.Row(name, value))
		}
	}
	add("owner:", r.Owner)
	add("backend:", r.Backend)
	if r.Expires != "" {
		add("expires:", "in "+r.Expires)
	}
	add("problem:", r.Problem)
	p.Table(nil, rows...)
}
