package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/internal/daemonflags"
)

// startEtcd starts an etcd in this process. The context it returns ends when the
// etcd does; end stops it. It is nil in a program without an etcd inside (build tag
// no_embedded_etcd), which takes 6 MB less memory (docs/benchmarks.md).
var startEtcd func(context.Context, *options) (_ context.Context, endpoints []string, end func(), err error)

// withEtcd is the program with an etcd inside. It is installed beside the one without.
const withEtcd = "flanneld-etcd"

// ensureEtcd continues as the program with an etcd inside, if the flags need it and
// this one has none: same process, arguments and environment.
func (o *options) ensureEtcd() error {
	if o.embedEtcd.dir == "" || o.installCNI || startEtcd != nil {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program := filepath.Join(filepath.Dir(self), withEtcd)
	if isSelf(self, program) {
		err = errors.New("it has none either: it is a link to flanneld or a copy of it")
	} else {
		err = syscall.Exec(program, os.Args, os.Environ())
	}
	return fmt.Errorf("--embed-etcd: this flanneld has no etcd inside, and cannot continue as the one that has, %s: %w; "+
		"install that, or run an etcd and give its address to --etcd-endpoints", program, err)
}

// isSelf reports whether this program, which has no etcd, is where the one with an etcd should be.
func isSelf(self, program string) bool {
	here, errHere := os.Stat(self)
	there, errThere := os.Stat(program)
	return filepath.Base(self) == withEtcd || errHere == nil && errThere == nil && os.SameFile(here, there)
}

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
