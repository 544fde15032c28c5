package networks

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the longest name in bytes: the name becomes a file's, with endings.
const maxName = 200

// reserved are names that a key or an API uses for something else: the keys of the
// unnamed network (interop 3.1), and its name in the server API (interop 3.9).
var reserved = []string{"config", "subnets", "_"}

// ParseNames reads the names of networks, separated by commas, in their order.
func ParseNames(list string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if err := CheckName(name); err != nil {
			return nil, err
		}
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("network %q is named twice", name)
		}
		names = append(names, name)
	}
	return names, nil
}

// CheckName returns the reason why a network cannot have this name. The name is a part
// of a key in the datastore and of the path of a file.
func CheckName(name string) error {
	odd := func(r rune) bool { return r == '/' || !unicode.IsGraphic(r) }
	switch {
	case name == "":
		return fmt.Errorf("the name of a network is empty")
	case len(name) > maxName:
		return fmt.Errorf("the name of a network has %d bytes; it may have %d", len(name), maxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%q cannot be the name of a network: it is not UTF-8", name)
	case strings.HasPrefix(name, ".") || strings.ContainsFunc(name, odd):
		return fmt.Errorf("%q cannot be the name of a network: it may have no slash, no control character, "+
			"and no dot at its beginning", name)
	case slices.Contains(reserved, name):
		return fmt.Errorf("%q cannot be the name of a network: it is reserved", name)
	}
	return nil
}
