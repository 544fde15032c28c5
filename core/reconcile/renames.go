package reconcile

import "github.com/flanneld/flannel/core/dataplane"

// renames gives links the names that they have to have by now, and goes on with the host as it
// is then. A link that can become the wanted one stays with everything on it, so no packet is
// lost. Each renaming may free the name that another one needs.
func (d *differ) renames() {
	for again := true; again; {
		again = false
		for _, n := range d.opts.Names {
			if d.renameIfDue(n) {
				again = true
			}
		}
	}
}

// renameIfDue performs a renaming if the link under the former name has to become the wanted link
// of the new one. It reports whether it did.
func (d *differ) renameIfDue(n dataplane.Renaming) bool {
	have, exists := d.have.Links[n.From]
	want, wanted := d.want.Links[n.To]
	_, taken := d.have.Links[n.To]
	if !exists || !wanted || taken || !d.opts.Own.Links[n.From] || d.opts.Recreate[n.To] || have.Become(want) != nil {
		return false
	}
	if stays, wanted := d.want.Links[n.From]; wanted && have.Become(stays) == nil {
		return false
	}
	have.Name, have.Was = n.To, n.From
	d.renamed = append(d.renamed, dataplane.Op{Verb: dataplane.Replace, Object: have})
	d.have = d.have.Renamed(n.From, n.To)
	return true
}
