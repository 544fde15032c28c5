package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/drivers/remote"
)

// servers are the values of the flags of both sides of the server mode (interop 1.7).
type servers struct {
	remote, prefix            string
	keyFile, certFile, caFile string
	listen                    string
	ownRecords                bool
}

func (o *options) defineServers(fs *flag.FlagSet) {
	s := &o.servers
	fs.StringVar(&s.remote, "remote", "",
		"comma-separated `servers`, as HOST:PORT, to take leases from instead of etcd: flanneld with --listen")
	fs.StringVar(&s.prefix, "remote-prefix", remote.DefaultPrefix, "`path` of the network at the servers")
	fs.StringVar(&s.certFile, "remote-certfile", "",
		"certificate `file` of this side of the connection; needs --remote-keyfile")
	fs.StringVar(&s.keyFile, "remote-keyfile", "", "private key `file` of that certificate")
	fs.StringVar(&s.caFile, "remote-cafile", "",
		"`file` with the certificates of the authorities that may vouch for the other side; "+
			"with --listen, clients have to show a certificate")
	fs.StringVar(&s.listen, "listen", "",
		"`address` to serve leases at, from etcd to nodes with --remote: HOST:PORT, tcp://HOST:PORT, or fd:// for a socket "+
			"from systemd; such a process takes no subnet")
	fs.BoolVar(&s.ownRecords, "listen-own-records", true,
		"with --listen and client certificates: let a node change only records that carry its own address or that it "+
			"created")
}

// openRemote opens the lease store at the servers.
func (o *options) openRemote(ctx context.Context) (*remote.Store, error) {
	return remote.Open(ctx, remote.Options{
		Servers: strings.Split(o.servers.remote, ","), Prefix: o.servers.prefix,
		CertFile: o.servers.certFile, KeyFile: o.servers.keyFile, CAFile: o.servers.caFile,
		Log: slog.New(logr.ToSlogHandler(klog.Background())),
	})
}

// check refuses flags of the server mode that exclude each other.
func (s servers) check(kube bool, embed string) error {
	switch {
	case s.listen != "" && s.remote != "":
		return fmt.Errorf("--listen and --remote exclude each other: a server takes its leases from etcd")
	case kube && (s.listen != "" || s.remote != ""):
		return fmt.Errorf("--kube-subnet-mgr excludes --listen and --remote: nodes take their subnets from Kubernetes")
	case embed != "" && s.remote != "":
		return fmt.Errorf("--embed-etcd and --remote exclude each other: give one datastore")
	case s.remote == "" && s.listen == "" && (s.certFile != "" || s.keyFile != "" || s.caFile != ""):
		return fmt.Errorf("--remote-certfile, --remote-keyfile and --remote-cafile need --remote or --listen")
	}
	return nil
}
