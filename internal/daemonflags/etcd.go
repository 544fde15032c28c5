package daemonflags

import (
	"flag"
	"log/slog"
	"strings"

	"github.com/flanneld/flannel/drivers/etcd"
)

// The defaults of the flags of etcd (interop 1.2).
const (
	EtcdEndpoints = "http://127.0.0.1:4001,http://127.0.0.1:2379"
	EtcdPrefix    = "/coreos.com/network"
)

// Etcd holds the values of the flags that choose an etcd.
type Etcd struct {
	Endpoints, Prefix         string
	KeyFile, CertFile, CAFile string
	Username, Password        string
}

// Define adds the flags to a set.
func (e *Etcd) Define(fs *flag.FlagSet) {
	fs.StringVar(&e.Endpoints, "etcd-endpoints", EtcdEndpoints, "comma-separated `urls` of the etcd cluster")
	fs.StringVar(&e.Prefix, "etcd-prefix", EtcdPrefix, "`key` under which the network config and the leases are")
	fs.StringVar(&e.KeyFile, "etcd-keyfile", "", "private key `file` of the client certificate")
	fs.StringVar(&e.CertFile, "etcd-certfile", "", "client certificate `file`; needs --etcd-keyfile")
	fs.StringVar(&e.CAFile, "etcd-cafile", "",
		"`file` with the CA certificates that may sign the certificate of etcd")
	fs.StringVar(&e.Username, "etcd-username", "", "`user` for etcd's authentication")
	fs.StringVar(&e.Password, "etcd-password", "",
		"`password` for etcd's authentication; FLANNELD_ETCD_PASSWORD keeps it out of ps")
}

// Protected reports whether the flags show a credential to etcd, or name its socket, for which the host's
// permissions stand. Otherwise any program that reaches etcd can write what it holds.
func (e Etcd) Protected() bool {
	if e.Username != "" && e.Password != "" {
		return true
	}
	urls := e.URLs()
	socket, tls := true, true
	for _, url := range urls {
		socket = socket && strings.HasPrefix(url, "unix://")
		tls = tls && (strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "unixs://"))
	}
	return socket || tls && e.CertFile != "" && e.KeyFile != ""
}

// URLs returns the endpoints one by one.
func (e Etcd) URLs() []string { return strings.Split(e.Endpoints, ",") }

// Options returns the options of a store at these endpoints.
func (e Etcd) Options(endpoints []string, log *slog.Logger) etcd.Options {
	return etcd.Options{
		Endpoints: endpoints, Prefix: e.Prefix,
		CertFile: e.CertFile, KeyFile: e.KeyFile, CAFile: e.CAFile,
		Username: e.Username, Password: e.Password,
		Log: log,
	}
}
