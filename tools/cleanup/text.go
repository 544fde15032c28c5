package cleanup

import (
	"fmt"

	"github.com/flanneld/flannel/tools/output"
)

// Text prints a line for each object, and why others stay.
func (r *Result) Text(p *output.Page) {
	refused := len(r.Running) > 0 && !r.DryRun
	var rows [][]output.Cell
	for _, i := range r.Items {
		rows = append(rows, []output.Cell{r.outcome(i, refused), output.Plain(i.Kind), output.Plain(i.Object)})
	}
	if len(rows) == 0 {
		p.Line(output.Good("Nothing of flannel's is on this host."))
	} else {
		p.Table(output.Row("OUTCOME", "KIND", "OBJECT"), rows...)
	}
	p.Table(nil, r.remarks()...)
}

// remarks returns a row for each error and each thing to know.
func (r *Result) remarks() [][]output.Cell {
	var rows [][]output.Cell
	add := func(what output.Cell, text string) { rows = append(rows, []output.Cell{what, output.Plain(text)}) }
	for _, i := range r.Items {
		if i.Error != "" {
			add(output.Bad("error:"), i.Kind+" "+i.Object+": "+i.Error)
		}
	}
	for _, i := range r.Kept {
		add(output.Warn("kept:"), i.Kind+" "+i.Object+": "+i.Why)
	}
	for _, what := range r.Unknown {
		add(output.Bad("unknown:"), what)
	}
	for _, note := range r.Notes {
		add(output.Plain("note:"), note)
	}
	for _, id := range r.Running {
		as := fmt.Sprintf("as process %d", id)
		if id == 0 {
			as = "in a container"
		}
		add(output.Bad("running:"), "flanneld runs on this host "+as+" and would make all of it again; stop it first")
	}
	return rows
}

// outcome says what became of an item.
func (r *Result) outcome(i Item, refused bool) output.Cell {
	switch {
	case i.Error != "":
		return output.Bad("failed")
	case refused:
		return output.Warn("stays")
	case r.DryRun:
		return output.Plain("to remove")
	}
	return output.Good("removed")
}
