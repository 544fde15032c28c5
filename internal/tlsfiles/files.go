package tlsfiles

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/flanneld/flannel/internal/files"
)

// mostPEM is more than a bundle of certificates holds, in bytes.
const mostPEM = 16 << 20

// Files are the values of three flags. A flag that is not given has an empty value.
type Files struct {
	Flags         string // the flags are --FLAGS-certfile, --FLAGS-keyfile and --FLAGS-cafile
	Cert, Key, CA string
}

// Client returns a function that returns the configuration of a client's next connection: its pair, if any, and
// the trusted authorities, as the files hold them then; without a CA file these are the host's.
func (f Files) Client() (func() *tls.Config, error) {
	pair, err := f.Pair()
	if err != nil {
		return nil, err
	}
	trusted, err := f.Authorities()
	if err != nil {
		return nil, err
	}
	return func() *tls.Config {
		cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted()}
		if pair != nil {
			cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair() }
		}
		return cfg
	}, nil
}

// Dial opens a connection, as [net.Dialer.DialContext] does.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Secure returns a function that opens a connection and carries out the handshake of TLS, within a time.
func (d Dial) Secure(secrets func() *tls.Config, within time.Duration) Dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := d(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		cfg := secrets()
		if host, _, err := net.SplitHostPort(addr); err == nil {
			cfg.ServerName = host
		}
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		conn := tls.Client(raw, cfg)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close() // the connection is of no use
			return nil, err
		}
		return conn, nil
	}
}

// Pair returns a function that reads the pair again, so that a renewed one works for
// the next connection without a restart; nil if none is given. It fails if only one file is
// given, or if the files hold no pair.
func (f Files) Pair() (read func() (*tls.Certificate, error), err error) {
	switch {
	case f.Cert == "" && f.Key == "":
		return nil, nil
	case f.Key == "":
		return nil, fmt.Errorf("--%[1]s-keyfile: missing, though --%[1]s-certfile is given", f.Flags)
	case f.Cert == "":
		return nil, fmt.Errorf("--%[1]s-certfile: missing, though --%[1]s-keyfile is given", f.Flags)
	}
	read = func() (*tls.Certificate, error) {
		cert, err := files.ReadRegular(f.Cert, mostPEM)
		if err != nil {
			return nil, err
		}
		key, err := files.ReadRegular(f.Key, mostPEM)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		return &pair, err
	}
	if _, err := read(); err != nil {
		return nil, fmt.Errorf("--%[1]s-certfile, --%[1]s-keyfile: %[2]w", f.Flags, err)
	}
	return read, nil
}

// Authorities returns a function that reads the CA file again, so that a replaced authority counts for the next
// connection without a restart. While the file cannot be used, such as in the moment of its replacement, the
// last authorities count. Without a file it returns nil. Authorities fails if the file cannot be used now.
func (f Files) Authorities() (func() *x509.CertPool, error) {
	if f.CA == "" {
		return func() *x509.CertPool { return nil }, nil
	}
	pool, err := f.authorities()
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[x509.CertPool]
	last.Store(pool)
	return func() *x509.CertPool {
		if pool, err := f.authorities(); err == nil {
			last.Store(pool)
		}
		return last.Load()
	}, nil
}

func (f Files) authorities() (*x509.CertPool, error) {
	pem, err := files.ReadRegular(f.CA, mostPEM)
	if err != nil {
		return nil, fmt.Errorf("--%s-cafile: %w", f.Flags, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--%s-cafile: %s holds no certificate in PEM form", f.Flags, f.CA)
	}
	return pool, nil
}
