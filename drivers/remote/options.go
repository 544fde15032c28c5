package remote

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/flanneld/flannel/internal/following"
)

// DefaultPrefix is the path of the unnamed network at a server (interop 3.9).
const DefaultPrefix = "/v1/_"

// Options select the servers and the way to use them.
type Options struct {
	// Servers are the servers, as HOST:PORT or as a URL without a path. They
	// serve one datastore.
	Servers []string
	// Prefix is the path of the network at the servers; default DefaultPrefix.
	Prefix string
	// CertFile and KeyFile are the client's pair, CAFile the trusted authorities.
	// Any of them makes HOST:PORT a server with TLS.
	CertFile, KeyFile, CAFile string

	// Timeout bounds every call; default 5 s.
	Timeout time.Duration
	// Heartbeat is the interval of a server's signs of life; default 10 s. A
	// server is gone after Heartbeat plus Timeout of silence.
	Heartbeat time.Duration
	// Now is the clock that a grant's expiry is measured with; default time.Now.
	Now func() time.Time
	// Log receives outages and their end.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Prefix = path.Join("/", cmp.Or(o.Prefix, DefaultPrefix))
	following.Options{Timeout: &o.Timeout, Heartbeat: &o.Heartbeat, Now: &o.Now, Log: &o.Log}.SetDefaults()
	return o
}

// bases returns the URL of the network at each server.
func (o Options) bases() ([]string, error) {
	if o.Timeout < 0 || o.Heartbeat < 0 {
		return nil, errors.New("remote: negative timeout")
	}
	// This check comes first, for all: the other errors quote an entry.
	if strings.Contains(strings.Join(o.Servers, ","), "@") {
		return nil, errors.New("--remote: a server holds a user; clients identify by --remote-certfile")
	}
	var bases []string
	for _, s := range o.Servers {
		base, err := o.base(s)
		if err != nil {
			return nil, fmt.Errorf("--remote: %w", err)
		}
		bases = append(bases, base)
	}
	if len(bases) == 0 {
		return nil, errors.New("--remote: no server given")
	}
	return bases, nil
}

func (o Options) base(server string) (string, error) {
	scheme := "http"
	if o.CertFile != "" || o.KeyFile != "" || o.CAFile != "" {
		scheme = "https"
	}
	text := server
	if !strings.Contains(text, "://") {
		text = scheme + "://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Port() == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return "", fmt.Errorf("%q: want HOST:PORT", server)
	}
	if _, err := net.LookupPort("tcp", u.Port()); err != nil {
		return "", fmt.Errorf("%q: %s is no port", server, u.Port())
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%q: want HOST:PORT, http://HOST:PORT or https://HOST:PORT", server)
	case u.Scheme == "http" && scheme == "https":
		return "", fmt.Errorf("%q: the TLS files need https", server)
	}
	return u.Scheme + "://" + u.Host + o.Prefix, nil
}
