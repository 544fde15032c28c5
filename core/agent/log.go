package agent

import (
	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/node"
)

// logEvent writes "kind: text". The kind finds a line even after its wording
// has changed.
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

// withNotices returns a log that also passes on the events that are notices.
func withNotices(log, notify func(node.Event)) func(node.Event) {
	if notify == nil {
		return log
	}
	return func(e node.Event) {
		log(e)
		if e.Notice() != "" {
			notify(e)
		}
	}
}
