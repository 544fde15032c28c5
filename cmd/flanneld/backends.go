package main

import (
	"fmt"
	"io"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
)

// helpBackends prints the backends and their options as the registry has them.
func helpBackends(w io.Writer) {
	fmt.Fprintf(w, "\nBackends, by the Type in the network config's Backend object (default %s)\n", all.Default)
	for _, s := range all.Specs() {
		fmt.Fprintf(w, "  %s\n%s\n", s.Type, fold(s.Summary, "        ", 88))
		for _, o := range s.Options {
			if !o.Ignored {
				fmt.Fprintf(w, "    %s\n%s\n", o.Name, fold(describeOption(o), "        ", 88))
			}
		}
	}
}

func describeOption(o backend.Option) string {
	text := o.Help + ": " + o.Wants()
	if o.Zero != "" {
		text += "; 0 is " + o.Zero
	}
	if o.Required {
		return text + " (required)"
	}
	return text + " (default " + o.Default + ")"
}
