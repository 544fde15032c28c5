package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// list is a flag that may be repeated. A value holds one entry: commas are
// not split (interop 1.3).
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	*l = append(*l, s)
	return nil
}

// choice is a flag with few possible values.
type choice struct {
	value string
	among []string
}

func (c *choice) String() string { return c.value }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.among, s) {
		return fmt.Errorf("want %s", strings.Join(c.among, " or "))
	}
	c.value = s
	return nil
}

// optionalDir is a switch that may carry a directory: --x, --x=DIR, --x=false.
type optionalDir struct {
	dir       string // empty: off
	byDefault string // the directory for --x alone
}

func (d *optionalDir) String() string { return d.dir }

// IsBoolFlag makes the value optional and binds it to an equals sign.
func (d *optionalDir) IsBoolFlag() bool { return true }

func (d *optionalDir) Set(s string) error {
	if on, err := strconv.ParseBool(s); err != nil {
		d.dir = s
	} else if on {
		d.dir = d.byDefault
	} else {
		d.dir = ""
	}
	return nil
}
