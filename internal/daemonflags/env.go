package daemonflags

import (
	"errors"
	"flag"
	"fmt"
	"strings"
)

// envName returns the environment variable of a flag (interop 1.3).
func envName(flagName string) string {
	return "FLANNELD_" + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

// FromEnv sets the flags that the command line does not set. An empty variable
// counts as unset. It returns a complaint about each variable that does not
// parse.
func FromEnv(fs *flag.FlagSet, getenv func(string) string) []error {
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
			text := fmt.Sprintf("environment variable %s is ignored: invalid value %q: %v", envName(f.Name), value, err)
			complaints = append(complaints, errors.New(HideRefused(text, value)))
			// Package flag sets a number to 0 when parsing fails.
			if f.Value.String() != before {
				_ = f.Value.Set(before)
			}
		}
	})
	return complaints
}
