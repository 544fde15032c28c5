package nodelease

import (
	"fmt"
	"regexp"
	"strings"
)

// Annotation is one of the annotations that make a lease, or change one.
type Annotation uint8

// The annotations of interop 5.2, and one that upstream does not have.
const (
	Marker Annotation = iota // "true" on every node that takes part
	BackendType
	BackendData
	BackendV6Data
	PublicIP
	PublicIPv6
	PublicIPOverwrite // by the operator: the address to publish
	PublicIPv6Overwrite
	NodePublicIP // by the operator: overrides --public-ip
	NodePublicIPv6
	BackendWays // ours alone: see lease.Ways
	annotations // how many there are
)

var suffixes = [annotations]string{
	"kube-subnet-manager", "backend-type", "backend-data", "backend-v6-data", "public-ip", "public-ipv6",
	"public-ip-overwrite", "public-ipv6-overwrite", "node-public-ip", "node-public-ipv6",
	"backend-ways",
}

// DefaultPrefix is upstream's prefix of the annotations.
const DefaultPrefix = "flannel.alpha.coreos.com"

var prefixForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+/([a-z0-9_-]+-)?$`)

// Names are the full names of the annotations.
type Names struct{ prefix string }

// ParsePrefix returns the names under a prefix, which it completes (interop 5.2):
// "org.com" becomes "org.com/", "org.com/9" becomes "org.com/9-".
func ParsePrefix(prefix string) (Names, error) {
	full := prefix
	switch {
	case !strings.Contains(full, "/"):
		full += "/"
	case !strings.HasSuffix(full, "/") && !strings.HasSuffix(full, "-"):
		full += "-"
	}
	if !prefixForm.MatchString(full) {
		return Names{}, fmt.Errorf("annotation prefix %q: "+
			"want a lowercase name with a dot, and at most one / with a lowercase word after it, such as %q or %q",
			prefix, DefaultPrefix, "example.com/flannel")
	}
	return Names{full}, nil
}

// Of returns the full name of an annotation.
func (n Names) Of(a Annotation) string { return n.prefix + suffixes[a] }

// Find returns the annotation with a full name.
func (n Names) Find(name []byte) (Annotation, bool) {
	if len(name) <= len(n.prefix) || string(name[:len(n.prefix)]) != n.prefix {
		return 0, false
	}
	for a, suffix := range suffixes {
		if string(name[len(n.prefix):]) == suffix {
			return Annotation(a), true
		}
	}
	return 0, false
}
