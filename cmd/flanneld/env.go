package main

import (
	"flag"
	"fmt"
	"strings"
)

// envName is the variable that stands in for a flag (interop 1.3).
func envName(flagName string) string {
	return "FLANNELD_" + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

// fromEnv sets the flags that the command line left alone. An empty variable
// counts as unset; one that does not parse is complained about and skipped.
func fromEnv(fs *flag.FlagSet, getenv func(string) string) []error {
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var complaints []error
	fs.VisitAll(func(f *flag.Flag) {
		value := getenv(envName(f.Name))
		if given[f.Name] || value == "" {
			return
		}
		before := f.Value.String()
		if err := fs.Set(f.Name, value); err != nil {
			complaints = append(complaints, fmt.Errorf("environment variable %s is ignored: invalid value %q: %w", envName(f.Name), value, err))
			// Package flag's numbers become 0 when they fail to parse.
			if f.Value.String() != before {
				_ = f.Value.Set(before)
			}
		}
	})
	return complaints
}
