package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/drivers/remote"
	"github.com/flanneld/flannel/drivers/remote/server"
	"github.com/flanneld/flannel/internal/daemonflags"
)

// servers are the values of the flags of both sides of the server mode (interop 1.7).
type servers struct {
	daemonflags.Remote
	listen     string
	ownRecords bool
	conns      int // of one client
	identity   string
}

func (o *options) defineServers(fs *flag.FlagSet) {
	s := &o.servers
	s.Remote.Define(fs)
	fs.StringVar(&s.listen, "listen", "",
		"`address` to serve leases at, from etcd to nodes with --remote: HOST:PORT, tcp://HOST:PORT, or fd:// for a socket "+
			"from systemd; such a process takes no subnet")
	fs.BoolVar(&s.ownRecords, "listen-own-records", true,
		"with --listen and client certificates: let a node change only records that carry its own address or that it "+
			"created")
	fs.StringVar(&s.identity, "listen-identity", string(server.Auto),
		"with --listen and client certificates, who holds one lease: certificate, if each node has a certificate with a "+
			"`name` of its own; address, if nodes share one; auto takes a certificate that holds addresses for that of one node")
	fs.IntVar(&s.conns, "listen-client-connections", server.DefaultConnsPer,
		"with --listen: how many requests one client may have open at once; a client is an IPv4 address or an IPv6 /64 "+
			"together with the name in its certificate")
}

// openRemote opens the lease store at the servers.
func (o *options) openRemote(ctx context.Context) (*remote.Store, error) {
	return remote.Open(ctx, o.remoteOptions())
}

// remoteOptions returns the options of the servers' clients.
func (o *options) remoteOptions() remote.Options {
	return o.servers.Options(slog.New(logr.ToSlogHandler(klog.Background())))
}

// check refuses flags of the server mode that exclude each other.
func (s servers) check(kube bool, embed string) error {
	_, err := server.ParseIdentity(s.identity)
	switch {
	case err != nil:
		return fmt.Errorf("--listen-identity: %w", err)
	case s.listen != "" && s.Servers != "":
		return fmt.Errorf("--listen and --remote exclude each other: a server takes its leases from etcd")
	case kube && (s.listen != "" || s.Servers != ""):
		return fmt.Errorf("--kube-subnet-mgr excludes --listen and --remote: nodes take their subnets from Kubernetes")
	case embed != "" && s.Servers != "":
		return fmt.Errorf("--embed-etcd and --remote exclude each other: give one datastore")
	case s.conns <= 0:
		return fmt.Errorf("--listen-client-connections: %d: want a number above 0", s.conns)
	case s.Servers == "" && s.listen == "" && (s.CertFile != "" || s.KeyFile != "" || s.CAFile != ""):
		return fmt.Errorf("--remote-certfile, --remote-keyfile and --remote-cafile need --remote or --listen")
	}
	return nil
}
