package agent

import (
	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/node"
)

// logEvent returns a log that writes "kind: text", and before it the name of the
// network if there is one. The kind finds a line even after its wording has changed.
func logEvent(network string) func(node.Event) {
	name := ""
	if network != "" {
		name = "network " + network + ": "
	}
	return func(e node.Event) {
		switch e.Level {
		case node.Error:
			klog.Errorf("%s%s: %s", name, e.Kind, e.Whole())
		case node.Warning:
			klog.Warningf("%s%s: %s", name, e.Kind, e.Whole())
		default:
			klog.Infof("%s%s: %s", name, e.Kind, e.Whole())
		}
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
