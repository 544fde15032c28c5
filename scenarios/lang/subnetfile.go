package lang

import "strings"

// WithoutMTU returns a subnet file without its MTU. Where only that differs, a world
// changes the MTU of its pods in place: pods made before keep their addresses.
func WithoutMTU(text string) string {
	before, rest, _ := strings.Cut(text, "FLANNEL_MTU=")
	_, after, _ := strings.Cut(rest, "\n")
	return before + after
}
