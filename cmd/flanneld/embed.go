package main

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/internal/daemonflags"
)

// embeddedDied ends a run whose embedded etcd has ended.
type embeddedDied struct{ err error }

func (e *embeddedDied) Error() string { return "embedded etcd: " + e.err.Error() }
func (e *embeddedDied) Unwrap() error { return e.err }

// embeddedURL returns the URL at which the embedded etcd listens.
func (o *options) embeddedURL() (string, error) {
	if o.etcd.Endpoints == daemonflags.EtcdEndpoints {
		return embeddedEndpoint, nil
	}
	u, err := url.Parse(o.etcd.Endpoints)
	if err != nil || u.Scheme != "http" || u.User != nil || u.Port() == "" || strings.Contains(o.etcd.Endpoints, ",") {
		return "", fmt.Errorf("--embed-etcd listens on one address: --etcd-endpoints is %s; want http://IP:PORT",
			quote(daemonflags.HideCredentials(o.etcd.Endpoints)))
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && !ip.IsLoopback() {
		klog.Warningf("the embedded etcd needs no password: any host that reaches %s can change the network", u.Host)
	}
	return o.etcd.Endpoints, nil
}
