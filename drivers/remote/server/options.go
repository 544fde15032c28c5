package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/internal/tlsfiles"
)

// Store is a datastore as a server needs it: what nodes use, and the changes that
// operators make.
type Store interface {
	lease.Store
	// CatchUp returns once View shows everything that was written before the call.
	CatchUp(ctx context.Context) error
	// PutRecord writes a record by compare-and-swap on its ModRevision; 0: it is new.
	// With a TTL of 0 it is a reservation.
	PutRecord(ctx context.Context, l lease.Lease, ttl time.Duration) error
	// DeleteRecord deletes a record by compare-and-swap.
	DeleteRecord(ctx context.Context, l lease.Lease) error
	// Remaining returns the time until a record expires; 0 for a reservation.
	Remaining(ctx context.Context, l lease.Lease) (time.Duration, error)
	// Close ends the use of the store.
	Close()
}

// Networks are the names of the networks of a datastore, except the unnamed one.
type Networks interface {
	// Names returns the names, sorted, and the revision at which they stand. Synced
	// is false while the datastore is unreachable.
	Names() (names []string, revision int64, synced bool)
	// Changed receives a value after Names has changed. It is coalesced.
	Changed() <-chan struct{}
}

// Options say what to serve, and to whom.
type Options struct {
	// Open opens the store of a network; the empty name is the unnamed one.
	Open func(network string) (Store, error)
	// Networks are the networks besides the unnamed one; nil: none.
	Networks Networks

	// OwnRecords lets a client with a certificate change only records that carry
	// its own address or that it created.
	OwnRecords bool
	// Identity says which records belong to one node; with OwnRecords.
	Identity Identity
	Limits   Limits

	// Timeout bounds each request except watches; default 10 s.
	Timeout time.Duration
	// Patience is how long a client may take to begin to read an answer; default 30 s.
	Patience time.Duration
	// Heartbeat is the interval of a stream's signs of life; default 10 s.
	Heartbeat time.Duration
	// Now is the clock of expirations; default time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// DefaultConnsPer is how many requests of one client may be open at once, unless Limits say otherwise.
const DefaultConnsPer = 100

// Limits bound what clients may use. A client is an IPv4 address or an IPv6 /64, and the name in its certificate.
type Limits struct {
	Body      int64   // bytes of a request; default 128 KiB
	Rate      float64 // requests of one client a second; default 200
	Burst     int     // requests that one client may send at once; default 2000
	Open      int     // connections in all; default 20,000, or what the limit of open files leaves room for
	ConnsPer  int     // requests of one client that are open at once; default 100
	WritesPer int     // changes under way at once, in all; default 256
	Lists     int     // bytes of long answers that are being sent; default 128 MiB

	Handshakes    int // TLS handshakes under way at once, in all; default 1024
	HandshakesPer int // those from one IPv4 address or IPv6 /64; default 32
}

// spare is how many connections a client may have above its limit. On these it is told that it has too many.
const spare = 8

// otherFiles is how many files a server has open besides its clients' connections.
const otherFiles = 256

// most returns how many connections the limit of open files leaves room for.
func (l Limits) most() int {
	const enough = 20000
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return enough
	}
	room := min(files.Cur, 1<<30)
	return min(enough, max(int(room)-otherFiles-l.Handshakes, otherFiles))
}

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	o.Heartbeat = cmp.Or(o.Heartbeat, 10*time.Second)
	o.Identity = cmp.Or(o.Identity, Auto)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &o.Limits
	l.Body = cmp.Or(l.Body, 128<<10)
	l.Rate = cmp.Or(l.Rate, 200)
	l.Burst = cmp.Or(l.Burst, 2000)
	l.ConnsPer = cmp.Or(l.ConnsPer, DefaultConnsPer)
	l.Lists = cmp.Or(l.Lists, 128<<20)
	l.Handshakes = cmp.Or(l.Handshakes, 1024)
	l.HandshakesPer = cmp.Or(l.HandshakesPer, 32)
	l.Open = cmp.Or(l.Open, l.most())
	l.WritesPer = cmp.Or(l.WritesPer, 256)
	return o
}

// TLS returns the configuration for a server's pair. With a CA, clients must present
// a certificate that the CA has signed. Without a pair it returns nil, for no TLS.
func TLS(certFile, keyFile, caFile string) (*tls.Config, error) {
	switch {
	case certFile == "" && keyFile == "" && caFile == "":
		return nil, nil
	case certFile == "":
		return nil, errors.New("--remote-certfile: missing; with --listen, --remote-keyfile and --remote-cafile need it")
	}
	files := tlsfiles.Files{Flags: "remote", Cert: certFile, Key: keyFile, CA: caFile}
	pair, err := files.Pair()
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		// A ticket would admit a client whose authority is no longer trusted.
		SessionTicketsDisabled: true,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair() },
	}
	trusted, err := files.Authorities()
	if err != nil || caFile == "" {
		return cfg, err
	}
	cfg.ClientAuth = tls.RequireAndVerifyClientCert
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := cfg.Clone()
		now.ClientCAs = trusted()
		return now, nil
	}
	return cfg, nil
}
