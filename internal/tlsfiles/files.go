package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Files are the values of three flags. A flag that is not given has an empty value.
type Files struct {
	Flags         string // the flags are --FLAGS-certfile, --FLAGS-keyfile and --FLAGS-cafile
	Cert, Key, CA string
}

// Client returns the configuration of a client: its pair, if any, and the trusted
// authorities; without a CA file these are the host's.
func (f Files) Client() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	pair, err := f.Pair()
	if err != nil {
		return nil, err
	}
	if pair != nil {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair() }
	}
	cfg.RootCAs, err = f.Authorities()
	if err != nil {
		return nil, err
	}
	return cfg, nil
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
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		return &pair, err
	}
	if _, err := read(); err != nil {
		return nil, fmt.Errorf("--%[1]s-certfile, --%[1]s-keyfile: %[2]w", f.Flags, err)
	}
	return read, nil
}

// Authorities reads the CA file; nil if none is given.
func (f Files) Authorities() (*x509.CertPool, error) {
	if f.CA == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("--%s-cafile: %w", f.Flags, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--%s-cafile: %s holds no certificate in PEM form", f.Flags, f.CA)
	}
	return pool, nil
}
