package main

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/drivers/kube"
)

// openKube opens the lease store on Kubernetes nodes. The pod's environment
// names the node (interop 1.3).
func (o *options) openKube(ctx context.Context) (*kube.Store, error) {
	if depth := o.getenv("EVENT_QUEUE_DEPTH"); depth != "" {
		klog.Infof("EVENT_QUEUE_DEPTH=%s has no effect: there is no queue of events to fill", depth)
	}
	return kube.Open(ctx, kube.Options{
		URL: o.kubeAPIURL, Kubeconfig: o.kubeconfig, UserAgent: "flanneld/" + version(),
		Node: o.getenv("NODE_NAME"), PodName: o.getenv("POD_NAME"), PodNamespace: o.getenv("POD_NAMESPACE"),
		AnnotationPrefix: o.kubeAnnotation, ConfigFile: o.netConfigPath,
		SetNetworkUnavailable: o.setNetworkUnavailable,
		Log:                   slog.New(logr.ToSlogHandler(klog.Background())),
	})
}
