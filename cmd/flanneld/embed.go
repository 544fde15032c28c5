package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

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

// embeddedListen returns the URLs at which the embedded etcd listens: the given one of its socket, and an
// https URL in --etcd-endpoints, for other hosts. A client that uses the socket is root; any other shows a
// certificate. Without either, a local user or a pod of the host's network could change the network config,
// and with backend extension run commands as root.
func (o *options) embeddedListen(socket string) ([]string, error) {
	e := o.etcd
	if e.Endpoints == daemonflags.EtcdEndpoints || e.Endpoints == socket {
		return []string{socket}, nil
	}
	const instead = "leave it out, and flanneld and flannelctl use the socket %s; for other hosts, give https://IP:PORT " +
		"with --etcd-certfile, --etcd-keyfile and --etcd-cafile"
	shown := quote(daemonflags.HideCredentials(e.Endpoints))
	u, err := url.Parse(e.Endpoints)
	switch {
	case strings.HasPrefix(e.Endpoints, "http://"):
		return nil, fmt.Errorf("--embed-etcd no longer listens at an address without certificates, where any user of this "+
			"host could change the network: --etcd-endpoints is %s; "+instead, shown, socket)
	case err != nil || u.Scheme != "https" || u.Port() == "" || strings.ContainsAny(e.Endpoints, ",@?#"):
		return nil, fmt.Errorf("--embed-etcd listens at its socket and at most one address: --etcd-endpoints is %s; "+instead,
			shown, socket)
	case e.CertFile == "" || e.KeyFile == "" || e.CAFile == "":
		return nil, fmt.Errorf("--embed-etcd listens at %s only with --etcd-certfile, --etcd-keyfile and --etcd-cafile: "+
			"each client must show a certificate of that authority", shown)
	}
	return []string{socket, e.Endpoints}, nil
}
