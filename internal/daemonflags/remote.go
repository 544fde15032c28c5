package daemonflags

import (
	"flag"
	"log/slog"
	"strings"

	"github.com/flanneld/flannel/drivers/remote"
)

// Remote holds the values of the flags of a client of flannel servers (interop 1.7).
type Remote struct {
	Servers, Prefix           string
	KeyFile, CertFile, CAFile string
}

// Define adds the flags to a set.
func (r *Remote) Define(fs *flag.FlagSet) {
	fs.StringVar(&r.Servers, "remote", "",
		"comma-separated `servers`, as HOST:PORT, to take leases from instead of etcd: flanneld with --listen")
	fs.StringVar(&r.Prefix, "remote-prefix", remote.DefaultPrefix, "`path` of the network at the servers")
	fs.StringVar(&r.CertFile, "remote-certfile", "",
		"certificate `file` of this side of the connection; needs --remote-keyfile")
	fs.StringVar(&r.KeyFile, "remote-keyfile", "", "private key `file` of that certificate")
	fs.StringVar(&r.CAFile, "remote-cafile", "",
		"`file` with the certificates of the authorities that may vouch for the other side; "+
			"with --listen, clients have to show a certificate")
}

// Protected reports whether the servers show who they are, and ask the same of their clients. Such servers
// answer for the datastore behind them.
func (r Remote) Protected() bool { return r.CAFile != "" && r.CertFile != "" && r.KeyFile != "" }

// Options returns the options of a store at these servers.
func (r Remote) Options(log *slog.Logger) remote.Options {
	return remote.Options{
		Servers: strings.Split(r.Servers, ","), Prefix: r.Prefix,
		CertFile: r.CertFile, KeyFile: r.KeyFile, CAFile: r.CAFile,
		Log: log,
	}
}
