package lang

import "strings"

// WithoutMTU returns a subnet file without its MTU. If two files differ only in that, a
// world changes the MTU of its pods in place, so that they keep their addresses.
func WithoutMTU(text string) string {
	before, rest, _ := strings.Cut(text, "FLANNEL_MTU=")
	_, after, _ := strings.Cut(rest, "\n")
	return before + after
}
