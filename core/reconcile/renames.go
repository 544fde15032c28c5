package reconcile

import "github.com/flanneld/flannel/core/dataplane"

// renames plans the renaming of links. The rest of the plan starts from the host after it. A renamed
// link keeps everything on it, so no packet is lost. Each renaming may free the name for another one.
func (d *differ) renames() {
	for again := true; again; {
		again = false
		for _, n := range d.opts.Renamings {
			if d.renameIfDue(n) {
				again = true
			}
		}
	}
}

// renameIfDue plans a renaming if the link with the former name can become the wanted link with the new
// one. It reports whether it did.
func (d *differ) renameIfDue(n dataplane.Renaming) bool {
	have, exists := d.have.Links[n.From]
	_, taken := d.have.Links[n.To]
	if !exists || taken || !d.opts.Own.Links[n.From] || d.opts.Recreate[n.To] {
		return false
	}
	if !d.becomes(have, n.To) || d.becomes(have, n.From) {
		return false
	}
	have.Name, have.Was = n.To, n.From
	d.renamed = append(d.renamed, dataplane.Op{Verb: dataplane.Replace, Object: have})
	d.have = d.have.Renamed(n.From, n.To)
	return true
}

// becomes reports whether a link can become the wanted one with a name: by its parameters, and by the port of the
// packet path that runs on it.
func (d *differ) becomes(have dataplane.Link, name string) bool {
	want, wanted := d.want.Links[name]
	if !wanted || have.Become(want) != nil {
		return false
	}
	runs, isRunning := d.have.Proxies[have.Name]
	path, isWanted := d.want.Proxies[name]
	return !isRunning || !isWanted || runs.Local.Port() == path.Local.Port()
}
