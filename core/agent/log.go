package agent

import (
	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/node"
)

// logEvent writes "kind: text", so that a line can be found by its kind
// whatever becomes of its wording.
func logEvent(e node.Event) {
	switch e.Level {
	case node.Error:
		klog.Errorf("%s: %s", e.Kind, e.Text)
	case node.Warning:
		klog.Warningf("%s: %s", e.Kind, e.Text)
	default:
		klog.Infof("%s: %s", e.Kind, e.Text)
	}
}
