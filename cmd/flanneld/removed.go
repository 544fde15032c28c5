package main

import (
	"strconv"
	"strings"

	"github.com/flanneld/flannel/internal/daemonflags"
)

// removed returns the replacement of a flag of older releases (interop 1.7). The
// flags themselves are unknown, as in upstream's later releases.
func removed(flagName string) string {
	switch {
	case flagName == "etcd-endpoint":
		return "use --etcd-endpoints"
	case flagName == "use-multi-cluster-cidr":
		return "the ClusterCIDR API is gone from Kubernetes; leave it out"
	}
	return ""
}

// parseError explains an error of flag.FlagSet.Parse, and shows no credential.
func parseError(err error) string {
	text := err.Error()
	if name, unknown := strings.CutPrefix(text, "flag provided but not defined: -"); unknown {
		text = "unknown flag --" + name
		if hint := removed(name); hint != "" {
			text += " (" + hint + ")"
		}
		return text
	}
	if value := strings.IndexByte(text, '=') + 1; value > 0 && strings.HasPrefix(text, "bad flag syntax: ") {
		return text[:value]
	}
	if at := strings.IndexByte(text, '"'); at >= 0 {
		if quoted, err := strconv.QuotedPrefix(text[at:]); err == nil {
			value, _ := strconv.Unquote(quoted)
			text = daemonflags.HideRefused(text, value)
		}
	}
	return text
}
