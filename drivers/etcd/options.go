package etcd

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/flanneld/flannel/internal/following"
)

// Options select an etcd and the way to use it.
type Options struct {
	// Endpoints are URLs, all http or all https.
	Endpoints []string
	// Prefix is the root of all keys.
	Prefix string
	// CertFile and KeyFile are the client's pair, CAFile the trusted
	// authorities. The CA is used with and without a pair (interop E14: upstream ignores a CA alone).
	CertFile, KeyFile, CAFile string
	// Username and Password are for etcd's own authentication.
	Username, Password string

	// Timeout bounds every call; default 5 s (interop E14: upstream has no deadlines).
	Timeout time.Duration
	// Heartbeat is the interval at which the store checks that its watch is
	// alive; default 10 s. The watch is dead after Heartbeat plus Timeout of silence.
	Heartbeat time.Duration
	// Now is the clock that a grant's expiry is measured with; default time.Now.
	Now func() time.Time
	// Log receives messages on the connection and on bad records; default: they
	// are discarded.
	Log *slog.Logger

	dial []grpc.DialOption // for tests, to count and to interfere
}

// withDefaults fills in the defaults.
func (o Options) withDefaults() Options {
	following.Options{Timeout: &o.Timeout, Heartbeat: &o.Heartbeat, Now: &o.Now, Log: &o.Log}.SetDefaults()
	return o
}

// check finds mistakes in the options without a request.
func (o Options) check() error {
	if err := checkEndpoints(o.Endpoints); err != nil {
		return fmt.Errorf("--etcd-endpoints: %w", err)
	}
	switch {
	case o.Username != "" && o.Password == "":
		return errors.New("--etcd-password: missing, though --etcd-username is given")
	case o.Username == "" && o.Password != "":
		return errors.New("--etcd-username: missing, though --etcd-password is given")
	case o.Timeout < 0 || o.Heartbeat < 0:
		return errors.New("etcd: negative timeout")
	}
	return nil
}

// checkEndpoints demands URLs of one scheme: the client library picks plaintext
// or TLS by the first, for all.
func checkEndpoints(endpoints []string) error {
	if len(endpoints) == 0 {
		return errors.New("none given")
	}
	// This check comes first, for all: a malformed URL may hold a password too, a
	// comma in a password makes entries of its parts, and the other errors quote them.
	if strings.Contains(strings.Join(endpoints, ","), "@") {
		return errors.New("a URL holds a user; give it as --etcd-username and --etcd-password")
	}
	var scheme string
	for i, e := range endpoints {
		u, err := url.Parse(e)
		if err != nil {
			var ue *url.Error // it quotes the whole string again
			if errors.As(err, &ue) {
				err = ue.Err
			}
			return fmt.Errorf("entry %d: not a URL: %w", i+1, err)
		}
		switch {
		case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "unix" && u.Scheme != "unixs":
			return fmt.Errorf("%q: want http://HOST:PORT or https://HOST:PORT", e)
		case strings.HasPrefix(u.Scheme, "http") && (u.Host == "" || strings.Trim(u.Path, "/") != ""):
			return fmt.Errorf("%q: want just %s://HOST:PORT", e, u.Scheme)
		case scheme != "" && scheme != u.Scheme:
			return fmt.Errorf("%q: cannot be mixed with %s endpoints", e, scheme)
		}
		scheme = u.Scheme
	}
	return nil
}

// secure reports whether the endpoints, once checked, speak TLS.
func (o Options) secure() bool {
	u, err := url.Parse(o.Endpoints[0])
	return err == nil && (u.Scheme == "https" || u.Scheme == "unixs")
}
