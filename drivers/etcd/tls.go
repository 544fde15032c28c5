package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// tlsConfig reads the files of the options, even if no endpoint is https: an
// unreadable file is a mistake worth an error.
func (o Options) tlsConfig() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case o.CertFile != "" && o.KeyFile == "":
		return nil, errors.New("--etcd-keyfile: missing, though --etcd-certfile is given")
	case o.CertFile == "" && o.KeyFile != "":
		return nil, errors.New("--etcd-certfile: missing, though --etcd-keyfile is given")
	case o.CertFile != "":
		if _, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile); err != nil {
			return nil, fmt.Errorf("--etcd-certfile, --etcd-keyfile: %w", err)
		}
		// Read again for each connection: a renewed pair works without a
		// restart.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
			return &pair, err
		}
	}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--etcd-cafile: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--etcd-cafile: %s holds no certificate in PEM form", o.CAFile)
		}
	}
	return cfg, nil
}
