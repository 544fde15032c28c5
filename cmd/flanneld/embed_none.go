//go:build no_embedded_etcd

package main

import (
	"context"
	"errors"
)

// embedEtcd fails. The image's flanneld has no etcd inside: it would be 13 MB larger, and
// take 5 MB more memory on every node (docs/kubernetes.md).
func embedEtcd(ctx context.Context, _ *options) (_ context.Context, endpoints []string, end func(), err error) {
	return ctx, nil, nil, errors.New("--embed-etcd: this flanneld was built without an etcd, as that of the image is; " +
		"run an etcd beside it, and give its address to --etcd-endpoints")
}
