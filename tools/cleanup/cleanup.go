package cleanup

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/reconcile"
)

// Options say where flannel's objects are.
type Options struct {
	Host     driver.Lane
	Firewall driver.Lane
	// Daemons returns the ids of the daemons that run on this host.
	Daemons func() ([]int, error)

	// Networks are those of flannel that no file names any more.
	Networks []netip.Prefix

	// Root holds the files; "" or "/" is the host's own root.
	Root string
	// SubnetFiles, StateFiles and KeyFiles are the paths of former runs.
	SubnetFiles, StateFiles, KeyFiles []string
	// CNIData, CNIConf and CNIBin are the folders of the CNI plugin; KeepCNI leaves
	// the first two as they are.
	CNIData, CNIConf, CNIBin string
	KeepCNI                  bool
}

// at returns the path of a file below the root.
func (o Options) at(path string) string { return filepath.Join("/", o.Root, path) }

// Item is one object on the host.
type Item struct {
	Kind   string `json:"Kind"` // such as link, route, chain, file
	Object string `json:"Object"`
	Why    string `json:"Why,omitempty"`   // why it stays
	Error  string `json:"Error,omitempty"` // why it could not be removed
}

// Result lists the objects found and what was done with them.
type Result struct {
	DryRun  bool     `json:"DryRun"`
	Items   []Item   `json:"Items"`             // flannel's, in the order of removal
	Kept    []Item   `json:"Kept,omitempty"`    // not flannel's, or not for this command to remove
	Unknown []string `json:"Unknown,omitempty"` // what could not be read
	Notes   []string `json:"Notes,omitempty"`
	Running []int    `json:"Running,omitempty"` // ids of daemons
}

// Trouble reports whether objects of flannel's remain although they should not, or
// some part of the host could not be read.
func (r *Result) Trouble() bool {
	failed := func(i Item) bool { return i.Error != "" }
	return slices.ContainsFunc(r.Items, failed) || len(r.Unknown) > 0 || !r.DryRun && len(r.Running) > 0
}

// found is one reading of the host.
type found struct {
	host, firewall []dataplane.Op
	files          []Item
	kept           []Item
}

// rounds bounds the number of readings. The kernel may have several routes with one
// key, and each reading shows the first alone.
const rounds = 5

// Run lists flannel's objects, and removes them unless dryRun is set. It removes
// nothing while a daemon runs, which would make all of it again.
func Run(ctx context.Context, o Options, dryRun bool) (*Result, error) {
	result := &Result{DryRun: dryRun}
	var err error
	result.Running, err = o.running()
	if err != nil {
		return nil, fmt.Errorf("learn whether a daemon runs: %w", err)
	}
	marks, unread := o.readMarks()
	result.Unknown = append(result.Unknown, unread...)
	for range rounds {
		now, err := o.look(ctx, marks, result)
		if err != nil {
			return nil, err
		}
		result.Kept = now.kept
		if dryRun || len(result.Running) > 0 {
			result.list(now)
			return result, nil
		}
		if !o.removeObjects(ctx, now, result) {
			break
		}
	}
	o.removeFiles(result)
	return result, nil
}

// look reads the host once.
func (o Options) look(ctx context.Context, m marks, result *Result) (found, error) {
	var now found
	first, err := o.Host.Look(ctx, dataplane.Extent{})
	if err != nil {
		return now, err
	}
	facts, _ := first.Facts.(driver.HostFacts)
	var devices []string
	for _, l := range facts.Links {
		if nameOfDevice(l.Name) {
			devices = append(devices, l.Name)
		}
	}
	seen, err := o.Host.Look(ctx, dataplane.Extent{Links: devices, Networks: m.networks, Policies: len(m.networks) > 0})
	if err != nil {
		return now, err
	}
	now.host, now.kept = m.plan(seen.State, devices)
	now.kept = append(now.kept, m.bridges(facts.Links)...)

	rules, err := o.Firewall.Look(ctx, dataplane.Extent{})
	if err != nil {
		return now, err
	}
	now.firewall = reconcile.Chains(dataplane.NewState(), rules.State)
	result.noteTools(rules.Facts)
	files, kept := o.files()
	now.files = files
	now.kept = append(now.kept, kept...)
	return now, nil
}

// bridges returns the bridges that hold an address of the host's subnet: the CNI
// plugin bridge makes them.
func (m marks) bridges(links []driver.Link) []Item {
	var kept []Item
	for _, l := range links {
		for _, a := range l.Addrs {
			within := func(p netip.Prefix) bool { return p.IsValid() && p == a.Prefix.Masked() && a.Prefix.Addr() != p.Addr() }
			for _, own := range m.subnets {
				if within(own.V4) || within(own.V6) {
					kept = append(kept, Item{Kind: "link", Object: l.Name + " with " + a.Prefix.String(),
						Why: "the plugin of the pods made it; when no pod uses it, run: ip link delete " + l.Name})
				}
			}
		}
	}
	return kept
}

// noteTools says which rules cannot be changed, and so are not listed, because a tool is
// missing. A host without a tool most likely has no rules that need it.
func (r *Result) noteTools(facts driver.Facts) {
	known, ok := facts.(driver.FirewallFacts)
	if !ok {
		return
	}
	for f, tools := range known.Tools {
		for _, t := range []driver.Tool{tools.IPTables, tools.NFTables} {
			note := fmt.Sprintf("%s rules were not looked for with a tool that this host lacks: %s", cidr.Family(f), t.About)
			if !t.Usable && !slices.Contains(r.Notes, note) {
				r.Notes = append(r.Notes, note)
			}
		}
	}
}

// list adds everything that a reading found.
func (r *Result) list(now found) {
	for _, op := range slices.Concat(now.host, now.firewall) {
		r.Items = append(r.Items, itemOf(op))
	}
	r.Items = append(r.Items, now.files...)
}

// itemOf returns the item of an op that deletes an object. A kind of object is the
// first word of its text.
func itemOf(op dataplane.Op) Item {
	kind, object, _ := strings.Cut(op.Object.String(), " ")
	if c, ok := op.Object.(dataplane.Chain); ok {
		object = fmt.Sprintf("%s %s, hook %s, with its rules and jumps", c.Flavour, c.Family, c.Hook)
	}
	if _, ok := op.Object.(dataplane.Link); ok {
		object += " and all that leads through it"
	}
	return Item{Kind: kind, Object: object}
}

// removeObjects removes the objects of the kernel and the firewall that a reading found.
// It reports whether another reading may show more.
func (o Options) removeObjects(ctx context.Context, now found, result *Result) bool {
	removed := false
	apply := func(lane driver.Lane, ops []dataplane.Op) {
		if len(ops) == 0 {
			return
		}
		for i, err := range lane.Apply(ctx, ops) {
			item := itemOf(ops[i])
			if err != nil && !errors.Is(err, driver.ErrNotFound) {
				item.Error = err.Error()
			}
			if result.put(item) && item.Error == "" {
				removed = true
			}
		}
	}
	apply(o.Host, now.host)
	apply(o.Firewall, now.firewall)
	return removed
}

// put adds an item, or replaces the one of the same object. It reports whether it
// changed anything.
func (r *Result) put(item Item) bool {
	for i, have := range r.Items {
		if have.Kind == item.Kind && have.Object == item.Object {
			r.Items[i] = item
			return have != item
		}
	}
	r.Items = append(r.Items, item)
	return true
}
