package main

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/kube"
	"github.com/flanneld/flannel/internal/buildversion"
)

// openKube opens the lease store on Kubernetes nodes. The pod's environment
// names the node (interop 1.3).
func (o *options) openKube(ctx context.Context) (*kube.Store, error) {
	if depth := o.getenv("EVENT_QUEUE_DEPTH"); depth != "" {
		klog.Infof("EVENT_QUEUE_DEPTH=%s has no effect: there is no queue of events to fill", depth)
	}
	return kube.Open(ctx, kube.Options{
		URL: o.kube.URL, Kubeconfig: o.kube.Kubeconfig, UserAgent: "flanneld/" + buildversion.Version(),
		Node: o.getenv("NODE_NAME"), PodName: o.getenv("POD_NAME"), PodNamespace: o.getenv("POD_NAMESPACE"),
		AnnotationPrefix: o.kube.Annotations, ConfigFile: o.netConfigPath,
		SetNetworkUnavailable: o.setNetworkUnavailable,
		Log:                   slog.New(logr.ToSlogHandler(klog.Background())),
	})
}

// notify returns a function that writes notices as events of the node object.
func notify(store *kube.Store) func(node.Event) {
	return func(e node.Event) {
		store.Notify(kube.Notice{Reason: e.Notice(), Message: e.Text, Warning: e.Level != node.Info})
	}
}
